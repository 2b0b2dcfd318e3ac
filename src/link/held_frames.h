// HeldFrames: frames that must outlive their burst, such as a backlog or a deliberately delayed packet. A
// held frame owns copies of its path and payload. The store allocates its memory on construction, so holding
// never allocates. A frame longer than one path MTU is not held.
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
    objects::Frame* frame = nullptr;  // if held: valid until release()
  };
  // Copies `frame`, with its payload as one span, under the fault guard.
  [[nodiscard]] Held hold(const objects::Frame& frame);
  // REQUIRES: hold() returned the frame, and it has not been released since.
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
  std::unique_ptr<std::uint8_t[]> payloads_;  // pages are touched on first use
};

// Copies the description of a frame, not the memory that its spans name. Overwrites every field of `to`.
void copy_frame(const objects::Frame& from, objects::Frame& to);

}  // namespace rrdma::link
