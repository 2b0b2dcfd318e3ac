// Counts what a program takes from the heap. Replaces operator new, so one file of a program includes it. Under
// ThreadSanitizer, whose operator new cannot be replaced, nothing is counted.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
std::size_t allocations = 0;
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RRDMA_OPERATOR_NEW_IS_TAKEN
#endif
#endif
#if !defined(RRDMA_OPERATOR_NEW_IS_TAKEN) && !defined(__SANITIZE_THREAD__)
// The compiler sees that one calls malloc and the other free, and takes it for a mistake.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif
