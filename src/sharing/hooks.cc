// librrdma-memory.so.1, which `rrdma run --share-memory` loads beside librrdma.so.1. Large aligned
// allocations and anonymous mappings of the program come from the arena, so that programs of this host can
// map what it registers. The C library keeps everything else: small allocations, malloc, stacks, mappings
// with special flags.
//
// The program still sees private memory: madvise clears it, mremap moves it, and a child has its own copy.
// Only a program that forks by a raw system call, bypassing the C library, shares it with its child
// (docs/memory.md).
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/next_symbol.h"
#include "sharing/arena.h"

namespace rrdma::sharing {
namespace {

constexpr std::size_t kWindowOctets = std::size_t{1} << 40;  // address space; only touched pages use memory
constexpr std::size_t kLarge = 64 * 1024;
constexpr std::size_t kPage = 4096;

constinit NextSymbol<int(void**, std::size_t, std::size_t)> next_posix_memalign("posix_memalign");
constinit NextSymbol<void*(std::size_t, std::size_t)> next_aligned_alloc("aligned_alloc");
constinit NextSymbol<void*(std::size_t, std::size_t)> next_memalign("memalign");
constinit NextSymbol<void*(std::size_t)> next_valloc("valloc");
constinit NextSymbol<void(void*)> next_free("free");
constinit NextSymbol<void*(void*, std::size_t)> next_realloc("realloc");
constinit NextSymbol<std::size_t(void*)> next_usable_size("malloc_usable_size");

class Shared;
// Null until the library is initialised; until then the C library serves all calls. Never destroyed: the
// program may free memory after all destructors.
Shared* shared = nullptr;

// The arena with its lock, which fork() takes to keep the state consistent.
class Shared {
 public:
  Shared() {
    if (!arena_.open(kWindowOctets)) return;
    ::pthread_atfork([] { shared->before_fork(); }, [] { shared->after_fork_in_parent(); },
                     [] { shared->after_fork_in_child(); });
  }
  [[nodiscard]] bool has(const void* at) const { return arena_.has(at); }
  void* take(std::size_t octets, std::size_t alignment) {
    const Lock lock(mutex_);
    return arena_.take(octets, alignment);
  }
  bool give_back(void* at) {
    const Lock lock(mutex_);
    return arena_.give_back(at);
  }
  void give_back(void* at, std::size_t octets) {
    const Lock lock(mutex_);
    arena_.give_back(at, octets);
  }
  std::size_t length_at(const void* at) {
    const Lock lock(mutex_);
    return arena_.length_at(at);
  }
  bool clear(void* at, std::size_t octets) {
    const Lock lock(mutex_);
    return arena_.clear(at, octets);
  }

 private:
  struct Lock {
    explicit Lock(pthread_mutex_t& given) : mutex(given) { ::pthread_mutex_lock(&mutex); }
    ~Lock() { ::pthread_mutex_unlock(&mutex); }
    Lock(const Lock&) = delete;
    pthread_mutex_t& mutex;
  };

  void before_fork() {
    ::pthread_mutex_lock(&mutex_);
    if (::pipe2(gate_.data(), O_CLOEXEC) != 0) gate_ = {-1, -1};
  }
  // Wait until the child has its copy; otherwise the parent's writes would appear in it. The child's death
  // ends the wait, too.
  void after_fork_in_parent() {
    char copied;
    if (gate_[1] >= 0) raw::close(gate_[1]);
    while (gate_[0] >= 0 && raw::read(gate_[0], &copied, 1) < 0 && errno == EINTR) {
    }
    if (gate_[0] >= 0) raw::close(gate_[0]);
    ::pthread_mutex_unlock(&mutex_);
  }
  void after_fork_in_child() {
    if (!arena_.become_private()) {
      constexpr char kWords[] =
          "rrdma: this child process cannot have a copy of the memory that --share-memory shares (out of "
          "memory, or its "
          "descriptors were closed): it ends here, before it can harm its parent\n";
      [[maybe_unused]] const auto written = raw::write(2, kWords, sizeof kWords - 1);
      ::_exit(125);
    }
    for (const int end : gate_) {
      if (end >= 0) raw::close(end);
    }
    ::pthread_mutex_unlock(&mutex_);
  }

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::array<int, 2> gate_ = {-1, -1};
  Arena arena_;
};

__attribute__((constructor)) void begin() {
  // The first call of one of these may come from a signal handler.
  static_cast<void>(*next_posix_memalign), static_cast<void>(*next_aligned_alloc),
      static_cast<void>(*next_memalign);
  static_cast<void>(*next_valloc), static_cast<void>(*next_free), static_cast<void>(*next_realloc);
  static_cast<void>(*next_usable_size);
  alignas(Shared) static std::array<std::uint8_t, sizeof(Shared)> place;
  shared = new (place.data()) Shared;
}

bool is_shared(const void* at) { return shared != nullptr && shared->has(at); }

bool is_power_of_two(std::size_t n) { return n != 0 && (n & (n - 1)) == 0; }

// Null: leave it to the C library.
void* take_aligned(std::size_t alignment, std::size_t octets) {
  if (!is_power_of_two(alignment)) return nullptr;
  if (octets < kLarge && (alignment < kPage || octets < kPage)) return nullptr;
  return shared == nullptr ? nullptr : shared->take(octets, alignment);
}

bool is_plain_private(void* at, int rights, int flags, int fd) {
  constexpr int kHarmless = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
  return at == nullptr && fd == -1 && rights == (PROT_READ | PROT_WRITE) && (flags & ~kHarmless) == 0 &&
         (flags & (MAP_PRIVATE | MAP_ANONYMOUS)) == (MAP_PRIVATE | MAP_ANONYMOUS);
}

void* raw_mmap(void* at, std::size_t octets, int rights, int flags, int fd, off_t offset) {
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, octets, rights, flags, fd, offset));
}

// A shared mapping would grow into its neighbour's part of the file, so it moves to ordinary private memory
// instead.
void* move_elsewhere(void* at, std::size_t from, std::size_t to, int flags, void* wanted) {
  if (to <= from && (flags & MREMAP_FIXED) == 0) {
    if (to < from) shared->give_back(static_cast<std::uint8_t*>(at) + to, from - to);
    return at;
  }
  if ((flags & MREMAP_MAYMOVE) == 0) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  const bool fixed = (flags & MREMAP_FIXED) != 0;
  void* const moved = raw_mmap(fixed ? wanted : nullptr, to, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | (fixed ? MAP_FIXED : 0), -1, 0);
  if (moved == MAP_FAILED) return moved;
  std::memcpy(moved, at, std::min(from, to));
  shared->give_back(at, from);
  return moved;
}

}  // namespace
}  // namespace rrdma::sharing

using namespace rrdma::sharing;

#define RRDMA_HOOK extern "C" __attribute__((visibility("default")))

RRDMA_HOOK int posix_memalign(void** result, std::size_t alignment, std::size_t octets) noexcept {
  if (alignment % sizeof(void*) == 0) {
    if (void* const at = take_aligned(alignment, octets)) {
      *result = at;
      return 0;
    }
  }
  return (*next_posix_memalign)(result, alignment, octets);
}

RRDMA_HOOK void* aligned_alloc(std::size_t alignment, std::size_t octets) noexcept {
  if (void* const at = take_aligned(alignment, octets)) return at;
  return (*next_aligned_alloc)(alignment, octets);
}

RRDMA_HOOK void* memalign(std::size_t alignment, std::size_t octets) noexcept {
  if (void* const at = take_aligned(alignment, octets)) return at;
  return (*next_memalign)(alignment, octets);
}

RRDMA_HOOK void* valloc(std::size_t octets) noexcept {
  if (void* const at = take_aligned(kPage, octets)) return at;
  return (*next_valloc)(octets);
}

RRDMA_HOOK void free(void* at) noexcept {
  if (at == nullptr) return;
  if (!is_shared(at)) return (*next_free)(at);
  if (!shared->give_back(at)) ::abort();  // invalid free: abort, as the C library does
}

RRDMA_HOOK void* realloc(void* at, std::size_t octets) noexcept {
  if (at == nullptr || !is_shared(at)) return (*next_realloc)(at, octets);
  const std::size_t had = shared->length_at(at);
  if (had == 0) ::abort();
  if (octets == 0) {
    shared->give_back(at);
    return nullptr;
  }
  void* const moved = ::malloc(octets);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, at, std::min(had, octets));
  shared->give_back(at);
  return moved;
}

RRDMA_HOOK std::size_t malloc_usable_size(void* at) noexcept {
  if (at == nullptr || !is_shared(at)) return (*next_usable_size)(at);
  return shared->length_at(at);
}

RRDMA_HOOK void* mmap(void* at, std::size_t octets, int rights, int flags, int fd, off_t offset) noexcept {
  if (octets >= kLarge && is_plain_private(at, rights, flags, fd)) {
    if (void* const taken = take_aligned(kPage, octets)) return taken;
  }
  return raw_mmap(at, octets, rights, flags, fd, offset);
}
RRDMA_HOOK void* mmap64(void* at, std::size_t octets, int rights, int flags, int fd, off_t offset) noexcept
    __attribute__((alias("mmap")));

RRDMA_HOOK int munmap(void* at, std::size_t octets) noexcept {
  if (!is_shared(at)) return static_cast<int>(::syscall(SYS_munmap, at, octets));
  if (octets == 0 || reinterpret_cast<std::uintptr_t>(at) % kPage != 0) {
    errno = EINVAL;
    return -1;
  }
  shared->give_back(at, octets);
  return 0;
}

RRDMA_HOOK void* mremap(void* at, std::size_t from, std::size_t to, int flags, ...) noexcept {
  void* wanted = nullptr;
  if ((flags & MREMAP_FIXED) != 0) {
    va_list rest;
    va_start(rest, flags);
    wanted = va_arg(rest, void*);
    va_end(rest);
  }
  if (is_shared(at) && from != 0 && (flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) == 0)
    return move_elsewhere(at, from, to, flags, wanted);
  return reinterpret_cast<void*>(::syscall(SYS_mremap, at, from, to, flags, wanted));
}

RRDMA_HOOK int madvise(void* at, std::size_t octets, int advice) noexcept {
  if (is_shared(at) && (advice == MADV_DONTNEED || advice == MADV_FREE)) {
    if (shared->clear(at, (octets + kPage - 1) / kPage * kPage)) return 0;
  }
  return static_cast<int>(::syscall(SYS_madvise, at, octets, advice));
}
