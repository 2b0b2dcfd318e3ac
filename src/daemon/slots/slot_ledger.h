// The ledger: what a daemon must remember about each slot beyond its own death. It lies in a memfd that
// is parked together with the sockets (parking.h), so that the next daemon finds who holds which slot
// (until they have come back to it), where the QPNs of a free slot go on, and which multicast groups a
// dead program left behind on a socket that lives on. Only daemons write it.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>

#include "base/owned_fd.h"
#include "base/prng.h"
#include "base/result.h"
#include "control/identity.h"
#include "control/messages.h"
#include "wire/gid.h"

namespace rrdma::daemon {

inline constexpr std::size_t kGroupsPerSlotMax = 32;

// One multicast membership of a slot's socket.
struct GroupRow {
  wire::Gid group;
  std::uint32_t interface_index = 0;

  friend bool operator==(const GroupRow&, const GroupRow&) = default;
};

struct LedgerRow {
  std::uint32_t held = 0;
  std::uint32_t pid = 0;  // of the holder, in the namespace below; 0: not visible
  std::uint32_t uid = 0;  // of the holder
  std::uint32_t reserved = 0;
  std::uint64_t pid_namespace = 0;  // in which the writing daemon read the pid
  std::uint64_t start_time = 0;     // of the holder: a pid alone may be somebody else by now
  std::uint64_t freed_order = 0;    // 0: never held. The longest free is given out first.
  std::uint32_t next_index = 0;     // low 16 bits of the next QPN
  std::uint32_t group_count = 0;
  std::array<GroupRow, kGroupsPerSlotMax> groups{};
};

class SlotLedger {
 public:
  // A fresh one, in which the QPNs of every slot begin at a random place: a peer may still send to the
  // QPNs of programs that ended before the daemon did.
  [[nodiscard]] static Result<SlotLedger, int> create(Prng& prng);
  // One that an earlier daemon wrote; nothing when its layout is not ours.
  [[nodiscard]] static std::optional<SlotLedger> adopt(OwnedFd fd);
  SlotLedger(SlotLedger&& other) noexcept;
  SlotLedger& operator=(SlotLedger&& other) noexcept;
  ~SlotLedger();

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] LedgerRow& row(std::uint8_t slot);

  void hold(std::uint8_t slot, const control::PeerIdentity& holder);
  void free(std::uint8_t slot, std::uint16_t next_index);

  enum class Holder : std::uint8_t { kAlive, kDead, kUnknown };
  // What has become of the noted holder; unknown when its pid means nothing here.
  [[nodiscard]] Holder holder_state(std::uint8_t slot);

 private:
  SlotLedger(OwnedFd fd, void* base) : fd_(std::move(fd)), base_(base) {}

  OwnedFd fd_;
  void* base_ = nullptr;
};

// When a process started, in clock ticks since boot; 0 when that cannot be seen.
[[nodiscard]] std::uint64_t start_time_of(pid_t pid);

}  // namespace rrdma::daemon
