// The ledger: the state of each slot that must survive the daemon: its holder (until that returns to the next
// daemon), the next QPN of a free slot, and the multicast groups that a dead program left on a socket that
// lives on.
//
// A daemon works on its own rows, and also writes every change into a memfd that is parked with the sockets
// (parking.h). It reads that memfd once, at takeover, and rejects everything that is out of bounds. So other
// writers of the memfd cannot affect a running daemon.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/keys/key_source.h"
#include "base/owned_fd.h"
#include "base/result.h"
#include "control/identity.h"
#include "control/slot.h"
#include "wire/gid.h"

namespace rrdma::daemon {

using control::Slot;

inline constexpr std::size_t kGroupsPerSlotMax = 32;

// One multicast membership of a slot's socket.
struct GroupRow {
  wire::Gid group;
  std::uint32_t interface_index = 0;

  friend bool operator==(const GroupRow&, const GroupRow&) = default;
};

struct LedgerRow {
  bool held = false;
  control::PeerIdentity holder;     // as the writing daemon saw it
  std::uint64_t pid_namespace = 0;  // of the writing daemon; the holder's pid is valid in it
  std::uint64_t start_time = 0;     // of the holder, because its pid may have been reused
  std::uint64_t freed_order = 0;    // 0: never held. The slot that has been free longest is given out first.
  std::uint16_t next_index = 0;     // of the next QPN, within the slot
  std::vector<GroupRow> groups;     // at most kGroupsPerSlotMax
};

class SlotLedger {
 public:
  // Creates a ledger in which the QPNs of every slot start at a random place: a peer may still send to the
  // QPNs of programs that ended before the daemon did. `relayed`: programs get no sockets of the group
  // (relay.h).
  [[nodiscard]] static Result<SlotLedger, int> create(KeySource& keys, bool relayed = false);
  // Adopts the ledger of an earlier daemon; nothing if its layout differs.
  [[nodiscard]] static std::optional<SlotLedger> adopt(OwnedFd fd, KeySource& keys);
  SlotLedger(SlotLedger&& other) noexcept;
  SlotLedger& operator=(SlotLedger&& other) noexcept;
  ~SlotLedger();

  [[nodiscard]] int fd() const { return fd_.get(); }
  // No program has ever had a socket of the group.
  [[nodiscard]] bool is_relayed() const { return relayed_; }
  // Records that programs may have sockets from now on.
  void give_sockets_out();
  // REQUIRES: slot < kSlotCount, for all of these.
  [[nodiscard]] const LedgerRow& row(Slot slot) const { return rows_[slot]; }

  void hold(Slot slot, const control::PeerIdentity& holder);
  void hold(Slot slot, const control::PeerIdentity& holder, std::uint16_t next_index);
  void free(Slot slot, std::uint16_t next_index);
  // False: the slot has the maximum number of groups. An existing membership is permitted.
  [[nodiscard]] bool join(Slot slot, const GroupRow& group);
  void leave(Slot slot, const GroupRow& group);

  enum class Holder : std::uint8_t { kAlive, kDead, kUnknown };
  // The state of the recorded holder; unknown if its pid is not valid here.
  [[nodiscard]] Holder holder_state(Slot slot) const;
  // Whether a program that claims the slot may be the recorded holder: the same process if that is visible,
  // else the same user.
  [[nodiscard]] bool may_be_holder(Slot slot, const control::PeerIdentity& claimant) const;

 private:
  SlotLedger(OwnedFd fd, void* base, KeySource& keys);
  void write(Slot slot);

  OwnedFd fd_;
  void* base_ = nullptr;
  std::vector<LedgerRow> rows_;
  std::uint64_t last_order_ = 0;
  bool relayed_ = false;
};

// The start time of a process, in clock ticks since boot; 0 if not visible.
[[nodiscard]] std::uint64_t start_time_of(pid_t pid);

}  // namespace rrdma::daemon
