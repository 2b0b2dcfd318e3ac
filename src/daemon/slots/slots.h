// Slots: the holders of the slots of programs (control/slot.h). A slot is given out drained, with its options
// reset and its QPNs continuing after the last ones. It returns when its program releases it or is gone.
//
// After a takeover the ledger names holders that have not returned yet: those slots are orphans. An orphan is
// reserved until its program claims it or is known to be dead; if that cannot be known, for kOrphanGrace.
#pragma once

#include <array>
#include <bitset>
#include <deque>
#include <optional>

#include "base/keys/key_source.h"
#include "daemon/counters.h"
#include "daemon/server.h"
#include "daemon/shares/shares.h"
#include "daemon/slots/network.h"
#include "daemon/slots/relay.h"
#include "daemon/subsystem.h"

namespace rrdma::daemon {

class Slots : public Subsystem {
 public:
  // REQUIRES: all outlive this. `relay`: forwards the slots' packets, so that no program gets their sockets;
  // null: each program gets its own.
  Slots(Server& server, Network& network, Counters& counters, KeySource& keys, Relay* relay = nullptr);

  Verdict handle_message(Client& client, control::Received& message) override;
  void handle_client_gone(Client& client) override;
  [[nodiscard]] Instant next_deadline() const override { return next_reaping_; }
  void handle_deadline(Instant now) override;

  [[nodiscard]] Client* owner_of(Slot slot) const { return owners_[slot]; }
  [[nodiscard]] unsigned held_count() const;
  [[nodiscard]] unsigned orphan_count() const;

 private:
  void handle_request(Client& client, const control::Received& request);
  // REQUIRES: the slot is counted for the client's user.
  void grant(Client& client, std::uint32_t serial, Slot slot);
  void refuse(Client& client, std::uint32_t serial, const Problem& why);
  [[nodiscard]] bool is_waiting(const Client& client) const;
  void serve_waiting();
  [[nodiscard]] Result<Slot, Problem> choose();
  [[nodiscard]] bool is_free(unsigned slot) const;
  // The best free slot below `end`: of the largest size, and of those the one that has been free longest.
  // kSlotCount: none.
  [[nodiscard]] unsigned best_below(unsigned end) const;
  void hand_over(Client& client, Slot slot);
  // The descriptors that a program receives from.
  struct Handout {
    std::vector<OwnedFd> fds;
    std::uint8_t families = 0;
    bool relayed = false;
    [[nodiscard]] std::vector<int> numbers() const;
  };
  [[nodiscard]] Handout hand_out(const Client& client, Slot slot, IpSockets sockets);
  void renew_relays(Client& client);
  [[nodiscard]] int held_receive_buffer() const;
  [[nodiscard]] std::uint16_t index_after_unknown(Slot slot);
  // Prepares the slot's sockets for a new holder (or for none).
  [[nodiscard]] IpSockets clean(Slot slot, int receive_buffer);
  void release(Client& client, Slot slot, std::uint16_t next_index);
  // Tells the programs that watch these slots that their owner is gone. Until then the slots are not given
  // out again, and count for their user. Then answers the request of that serial, if any.
  void announce_end(Client& client, const std::vector<Slot>& slots, std::optional<std::uint32_t> serial = {});
  [[nodiscard]] bool handle_claim(Client& client, const control::SlotClaim& claim);
  void handle_network_up();
  void reap(Instant now);

  Server& server_;
  Network& network_;
  Counters& counters_;
  KeySource& keys_;
  Relay* const relay_;
  std::array<Client*, control::kSlotCount> owners_{};
  Shares shares_;
  std::bitset<control::kSlotCount> orphans_;
  std::bitset<control::kSlotCount> leaving_;          // their watchers are being told
  std::bitset<control::kSlotCount> without_sockets_;  // given out before the network came up
  // Requests that found no free slot beside orphans. Each is answered at the latest when all orphans were
  // looked at since. Its slot is counted for the user, and a program has at most one such request.
  struct Waiting {
    Client* client;
    std::uint32_t serial;
    std::uint64_t passes;  // of reap(), by then
  };
  std::deque<Waiting> waiting_;
  Instant orphans_since_{};
  unsigned reap_from_ = 1;
  std::uint64_t passes_ = 0;
  Instant next_reaping_ = kNever;
};

// Leaves the multicast groups that the ledger has for a slot. In multicast.cc.
void leave_all_groups(SlotLedger& ledger, Slot slot, const IpSockets& sockets);

}  // namespace rrdma::daemon
