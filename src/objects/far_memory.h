// FarMemory: memory of a MemoryKind that belongs to another process of this host. Its owner exports it: a
// description that only the kind understands. A peer opens the description and then copies by itself, without
// the owner's CPU. One implementation for each kind lives above this folder (nic/memory); link/shm uses it
// for direct access.
//
// An exported region stays reachable for its peers until they close it, even if its owner frees it. The owner
// therefore reviews its exports and revokes those whose memory is gone.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "objects/frame.h"
#include "objects/memory.h"

namespace rrdma::objects {

using FarDescription = std::array<std::uint8_t, 128>;

// The owner's side. Peers may use the description while the object lives.
class FarExport {
 public:
  virtual ~FarExport() = default;
  [[nodiscard]] const FarDescription& description() const { return description_; }
  // False: the memory was freed, also if other memory has its address now.
  [[nodiscard]] virtual bool is_there() const = 0;

 protected:
  FarDescription description_{};
};

enum class FarCopy : std::uint8_t {
  kDone,    // all bytes have arrived, in a write the last word after all others
  kFailed,  // some memory cannot be reached (any more)
  kGoesOn,  // it takes long, as behind a kernel that occupies the device: ask resume()
  kStale,   // nothing was copied; the mapping is of no use any more, as after a reset of the device
};

// The peer's side of one export. Threads: one at a time (the owner of the lane).
class FarMapping {
 public:
  virtual ~FarMapping() = default;
  // Bytes that can be reached.
  [[nodiscard]] virtual std::uint64_t length() const = 0;
  // Copy between memory of this process, of any kind, and the mapping from `at` on. REQUIRES: within
  // length(); no other copy of this mapping goes on.
  [[nodiscard]] virtual FarCopy write(std::uint64_t at, std::span<const PayloadSpan> from) = 0;
  [[nodiscard]] virtual FarCopy read(std::uint64_t at, std::span<const MutableSpan> to) = 0;
  // The copy that goes on. Does not wait.
  [[nodiscard]] virtual FarCopy resume() = 0;
  // True after kStale: open the description again.
  [[nodiscard]] virtual bool is_stale() const { return false; }
};

// Opens exports of other processes, for one lane. Threads: as FarMapping. As a listener it keeps up with the
// memory of this process that it prepared for copies.
class FarCopier : public KeyListener {
 public:
  // Null: the memory cannot be reached from here. `owner` is the process that exported it.
  [[nodiscard]] virtual std::unique_ptr<FarMapping> open(const FarDescription& description, pid_t owner) = 0;
};

}  // namespace rrdma::objects
