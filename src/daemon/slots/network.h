// Network: the lock of the network namespace, the group of slot sockets, its parking and its ledger. It is
// either bound anew, or taken over from a client that offers the parking of an earlier daemon. If both fail,
// it reports a reason and a remedy, and tries again whenever a program connects.
//
// If a group of this user holds the port because its daemon died, Network waits a moment for one of its
// programs to offer the parking before it reports that the port is taken (`settled`).
#pragma once

#include <optional>

#include "base/instant.h"
#include "base/keys/key_source.h"
#include "base/problem.h"
#include "control/messages.h"
#include "daemon/counters.h"
#include "daemon/slots/parking.h"
#include "daemon/slots/slot_ledger.h"

namespace rrdma::daemon {

class Network {
 public:
  // REQUIRES: both outlive this. Only allocates a ledger. `relayed`: no program may ever have a socket of the
  // group, and a group of which a program has one is not taken over.
  Network(Counters& counters, KeySource& keys, bool relayed = false);

  // The first attempt.
  void open(Instant now);
  // Tries again; true if the network is up now and was not before. Does nothing while it is up, or shortly
  // after the last attempt.
  bool retry(Instant now);
  // Permanently: for a daemon that must not touch the port of its network namespace.
  void stay_down() { next_attempt_ = kNever; }
  // Takes a parking that a client offers; true if the network is up now and was not before.
  bool adopt(OwnedFd parking_end);

  [[nodiscard]] bool is_up() const { return parking_.has_value(); }
  [[nodiscard]] bool took_over() const { return took_over_; }
  // Whether a parking was refused because programs have its sockets.
  [[nodiscard]] bool refused_group() const { return refused_group_; }
  // False while an offer may still come.
  [[nodiscard]] bool settled(Instant now) const { return is_up() || now >= awaits_offer_until_; }
  [[nodiscard]] Instant awaits_offer_until() const { return awaits_offer_until_; }
  [[nodiscard]] const control::NetworkState& state() const { return state_; }
  // The listening socket that is the lock; -1 while another daemon holds it.
  [[nodiscard]] int listener() const { return lock_.get(); }

  // REQUIRES: is_up().
  [[nodiscard]] int parking_end() const { return parking_->end(); }
  [[nodiscard]] unsigned slots_bound() const { return is_up() ? parking_->slots_parked() : 0; }
  // Copies of the sockets of a slot. REQUIRES: slot < slots_bound().
  [[nodiscard]] IpSockets sockets_of(Slot slot) const { return parking_->sockets_of(slot); }
  // Binds and parks the next slots. REQUIRES: is_up() and slots_bound() < kSlotCount.
  [[nodiscard]] Result<void, Problem> grow();
  [[nodiscard]] const IpSockets& daemon_slot() const { return daemon_slot_; }

  [[nodiscard]] SlotLedger& ledger() { return ledger_; }

 private:
  bool take_lock();
  bool may_take_port();
  bool bind_group();
  void come_up(Parking parking, IpSockets daemon_slot);

  Counters& counters_;
  KeySource& keys_;
  const bool relayed_;
  OwnedFd lock_;
  std::optional<control::PeerIdentity> lock_holder_;  // if it is another process
  OwnedFd offered_;  // a parking that came while another daemon held the lock
  SlotLedger ledger_;
  std::optional<Parking> parking_;
  IpSockets daemon_slot_;
  control::NetworkState state_;
  Instant awaits_offer_until_{};
  Instant next_attempt_{};
  bool took_over_ = false;
  bool refused_group_ = false;
};

}  // namespace rrdma::daemon
