// CallSite: where a program called a function of this library, as return addresses. Two of them, because
// `ibv_post_send` is an inline function of the program's header. Compiled without optimization it is a
// function of its own, and only its caller is a line that the programmer wrote.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rrdma {

struct CallSite {
  const void* inner = nullptr;
  const void* outer = nullptr;  // of the function that called; a guess, so check that it is code
};

// Frame records of x86-64 and AArch64, where code that keeps a frame pointer links them.
struct FrameRecord {
  const FrameRecord* outer;
  const void* return_address;
};
// An inline function of a header has a small frame. The bound also keeps the read on this stack.
inline constexpr std::size_t kWrapperFrameMax = 256;

// Of the function that this is written in, or of the function that the compiler inlines that one into.
[[gnu::always_inline]] inline CallSite call_site() {
  const auto* const own = static_cast<const FrameRecord*>(__builtin_frame_address(0));
  const auto here = reinterpret_cast<std::uintptr_t>(own),
             next = reinterpret_cast<std::uintptr_t>(own->outer);
  const bool is_near = next - here < kWrapperFrameMax && next != here && next % alignof(FrameRecord) == 0;
  return {own->return_address, is_near ? own->outer->return_address : nullptr};
}

}  // namespace rrdma
