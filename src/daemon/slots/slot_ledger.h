// The ledger: what a daemon must remember about each slot beyond its own death: who holds which slot (until
// they have come back to the next daemon), where the QPNs of a free slot go on, and which multicast groups
// a dead program left behind on a socket that lives on.
//
// A daemon works on rows of its own, and writes every change also into a memfd that is parked together with
// the sockets (parking.h). It reads that memfd once, when it takes over, and believes nothing of it that
// is out of bounds: whoever else can write it cannot reach the daemon that runs.
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
  std::uint64_t pid_namespace = 0;  // of the writing daemon: in which the holder's pid means something
  std::uint64_t start_time = 0;     // of the holder: a pid alone may be somebody else by now
  std::uint64_t freed_order = 0;    // 0: never held. The longest free is given out first.
  std::uint16_t next_index = 0;     // of the next QPN, within the slot
  std::vector<GroupRow> groups;     // at most kGroupsPerSlotMax
};

class SlotLedger {
 public:
  // A fresh one, in which the QPNs of every slot begin at a random place: a peer may still send to the
  // QPNs of programs that ended before the daemon did.
  // `relayed`: programs get no sockets of the group (relay.h).
  [[nodiscard]] static Result<SlotLedger, int> create(KeySource& keys, bool relayed = false);
  // One that an earlier daemon wrote; nothing when its layout is not ours.
  [[nodiscard]] static std::optional<SlotLedger> adopt(OwnedFd fd, KeySource& keys);
  SlotLedger(SlotLedger&& other) noexcept;
  SlotLedger& operator=(SlotLedger&& other) noexcept;
  ~SlotLedger();

  [[nodiscard]] int fd() const { return fd_.get(); }
  // No program has ever had a socket of the group.
  [[nodiscard]] bool is_relayed() const { return relayed_; }
  // Programs may have some from now on.
  void give_sockets_out();
  // REQUIRES: slot < kSlotCount, for all of these.
  [[nodiscard]] const LedgerRow& row(Slot slot) const { return rows_[slot]; }

  void hold(Slot slot, const control::PeerIdentity& holder);
  void hold(Slot slot, const control::PeerIdentity& holder, std::uint16_t next_index);
  void free(Slot slot, std::uint16_t next_index);
  // False: the slot has as many groups as it may have. One that is there already is no mistake.
  [[nodiscard]] bool join(Slot slot, const GroupRow& group);
  void leave(Slot slot, const GroupRow& group);

  enum class Holder : std::uint8_t { kAlive, kDead, kUnknown };
  // What has become of the noted holder; unknown when its pid means nothing here.
  [[nodiscard]] Holder holder_state(Slot slot) const;
  // Whether a program that says it holds the slot may be the noted holder: the same process where that
  // can be seen, else the same user.
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

// When a process started, in clock ticks since boot; 0 when that cannot be seen.
[[nodiscard]] std::uint64_t start_time_of(pid_t pid);

}  // namespace rrdma::daemon
