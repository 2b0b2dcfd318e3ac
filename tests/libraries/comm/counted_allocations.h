// Counts heap allocations of a program. It replaces operator new, so only one file of a program may include
// it. Counts nothing with ThreadSanitizer, whose operator new cannot be replaced.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
std::size_t allocations = 0;
[[maybe_unused]] bool exhausted = false;  // operator new throws
}  // namespace

// GCC defines macros, clang has __has_feature.
#if defined(__has_feature)
#define RRDMA_HAS_SANITIZER(name) __has_feature(name##_sanitizer)
#else
#define RRDMA_HAS_SANITIZER(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || RRDMA_HAS_SANITIZER(thread)
inline constexpr bool kSanitized = true;
#else
#if defined(__SANITIZE_ADDRESS__) || RRDMA_HAS_SANITIZER(address)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
// The compiler sees malloc in one and free in the other, and reports a mismatch.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = exhausted ? nullptr : std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif
