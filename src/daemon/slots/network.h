// Network: the lock of the network namespace, the group of slot sockets, its parking and its ledger. It
// comes up in one of three ways: bound afresh; taken over from a client that offers the parking of an
// earlier daemon; or not at all, with a reason and a remedy, and then it is tried again whenever a
// program comes.
//
// When the port turns out to be held by a group of this user, whose daemon died, Network waits a moment
// for one of its programs to offer the parking before it calls the port taken (`settled`).
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
  // REQUIRES: both outlive this. Takes memory for a ledger; nothing else yet. `relayed`: no program may ever have a
  // socket of the group, and a group of which one has is not taken over.
  Network(Counters& counters, KeySource& keys, bool relayed = false);

  // The first attempt.
  void open(Instant now);
  // Another one; true when the network is up now and was not before. Does nothing while it is up, or
  // shortly after the last attempt.
  bool retry(Instant now);
  // For good: a daemon that must not touch the port of its network namespace.
  void stay_down() { next_attempt_ = kNever; }
  // The parking that a client offers; true when the network is up now and was not before.
  bool adopt(OwnedFd parking_end);

  [[nodiscard]] bool is_up() const { return parking_.has_value(); }
  [[nodiscard]] bool took_over() const { return took_over_; }
  // A parking was offered whose sockets programs have: it is of no use here.
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
  std::optional<control::PeerIdentity> lock_holder_;  // while it is not us
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
