#include "cost.h"

#include <malloc.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace rrdma::fuzz {
namespace {

thread_local std::int64_t taken = 0;  // bytes from operator new that this thread has not freed

std::int64_t cpu_ns() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void* take(std::size_t size, std::size_t alignment) {
  void* const memory = alignment <= alignof(std::max_align_t)
                           ? std::malloc(size == 0 ? 1 : size)
                           : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  taken += static_cast<std::int64_t>(::malloc_usable_size(memory));
  return memory;
}

void give_back(void* memory) {
  if (memory == nullptr) return;
  taken -= static_cast<std::int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

std::int64_t taken_octets() { return taken; }

Cost::Cost(CostLimit limit) : limit_(limit), began_ns_(cpu_ns()), taken_(taken) {}

Cost::~Cost() {
  const std::int64_t ms = (cpu_ns() - began_ns_) / 1'000'000;
  const std::int64_t octets = taken - taken_;
  if (ms <= limit_.ms && octets <= static_cast<std::int64_t>(limit_.octets)) return;
  std::fprintf(stderr, "one message cost %lld ms and left %lld octets taken; allowed: %lld ms, %zu octets\n",
               static_cast<long long>(ms), static_cast<long long>(octets), static_cast<long long>(limit_.ms),
               limit_.octets);
  std::abort();
}

}  // namespace rrdma::fuzz

// All forms: a sanitizer brings its own, and memory must come and go by the same side.
void* operator new(std::size_t size) { return rrdma::fuzz::take(size, 1); }
void* operator new[](std::size_t size) { return rrdma::fuzz::take(size, 1); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return rrdma::fuzz::take(size, 1); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return rrdma::fuzz::take(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return rrdma::fuzz::take(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return rrdma::fuzz::take(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { rrdma::fuzz::give_back(memory); }
void operator delete[](void* memory) noexcept { rrdma::fuzz::give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { rrdma::fuzz::give_back(memory); }
void operator delete[](void* memory, std::size_t) noexcept { rrdma::fuzz::give_back(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { rrdma::fuzz::give_back(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { rrdma::fuzz::give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { rrdma::fuzz::give_back(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { rrdma::fuzz::give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { rrdma::fuzz::give_back(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  rrdma::fuzz::give_back(memory);
}
