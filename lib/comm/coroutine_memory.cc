// Memory for coroutine frames: thread-local free lists by size class. A frame released in another thread
// stays there. With AddressSanitizer, frames come from the heap, so that a use after free is reported.
#include <array>
#include <bit>
#include <cstddef>
#include <new>

#include "rrdma/comm/task.h"

#if defined(__SANITIZE_ADDRESS__)
#define RRDMA_COMM_PLAIN_FRAMES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RRDMA_COMM_PLAIN_FRAMES 1
#endif
#endif

namespace rrdma::comm {
inline namespace v0 {
namespace detail {
namespace {

constexpr std::size_t kSmallestFrame = 128;
constexpr std::size_t kFrameSizes = 6;  // 128 to 4096 bytes; larger frames come from the heap
constexpr std::size_t kKept = 1024;     // frames kept of each size

struct FreeFrame {
  FreeFrame* next;
};

class FrameLists {
 public:
  ~FrameLists() {
    for (std::size_t kind = 0; kind < kFrameSizes; ++kind) {
      while (void* frame = take(kind)) ::operator delete(frame);
    }
    // Thread-local objects that are destroyed later release their frames to the heap.
    counts_.fill(kKept);
  }
  void* take(std::size_t kind) {
    FreeFrame* frame = lists_[kind];
    if (frame == nullptr) return nullptr;
    lists_[kind] = frame->next;
    --counts_[kind];
    return frame;
  }
  bool keep(std::size_t kind, void* memory) {
    if (counts_[kind] >= kKept) return false;
    lists_[kind] = new (memory) FreeFrame{lists_[kind]};
    ++counts_[kind];
    return true;
  }

 private:
  std::array<FreeFrame*, kFrameSizes> lists_{};
  std::array<std::size_t, kFrameSizes> counts_{};
};

thread_local FrameLists frame_lists;

[[maybe_unused]] std::size_t frame_size_class(std::size_t size) {
  if (size <= kSmallestFrame) return 0;
  return static_cast<std::size_t>(std::countr_zero(std::bit_ceil(size)) - std::countr_zero(kSmallestFrame));
}

}  // namespace

#ifdef RRDMA_COMM_PLAIN_FRAMES
void* allocate_frame(std::size_t size) { return ::operator new(size); }
void release_frame(void* frame, std::size_t) noexcept { ::operator delete(frame); }
#else
void* allocate_frame(std::size_t size) {
  const std::size_t kind = frame_size_class(size);
  if (kind >= kFrameSizes) return ::operator new(size);
  if (void* frame = frame_lists.take(kind)) return frame;
  return ::operator new(kSmallestFrame << kind);
}
void release_frame(void* frame, std::size_t size) noexcept {
  const std::size_t kind = frame_size_class(size);
  if (kind >= kFrameSizes || !frame_lists.keep(kind, frame)) ::operator delete(frame);
}
#endif

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
