// HeldFrames: frames that must outlive the burst they came in: a backlog, a packet that is delayed on
// purpose. A held frame owns copies of its path and of its payload, in memory that is taken when the
// store is made; holding never allocates. A frame of more than one path MTU is not held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "objects/frame.h"

namespace rrdma::link {

inline constexpr std::size_t kHeldPayloadOctetsMax = 4096;

class HeldFrames {
 public:
  explicit HeldFrames(std::size_t capacity);

  enum class Verdict : std::uint8_t { kHeld, kFull, kTooLong, kUnreadable };
  struct Held {
    Verdict verdict = Verdict::kFull;
    objects::Frame* frame = nullptr;  // when held: good until release()
  };
  // Copies `frame`, with one span for all of its payload, under the fault guard.
  [[nodiscard]] Held hold(const objects::Frame& frame);
  // REQUIRES: a frame that hold() gave and that was not released since.
  void release(objects::Frame* frame);

  [[nodiscard]] std::size_t count() const { return slots_.size() - free_.size(); }
  [[nodiscard]] std::size_t room() const { return free_.size(); }

 private:
  struct Slot {
    objects::Frame frame;
    objects::Path path;
  };
  static_assert(std::is_standard_layout_v<Slot>);
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::unique_ptr<std::uint8_t[]> payloads_;  // not touched before it is needed
};

// Copies what a frame says, not the memory that its spans name; `to` keeps no trace of what it was.
void copy_frame(const objects::Frame& from, objects::Frame& to);

}  // namespace rrdma::link
