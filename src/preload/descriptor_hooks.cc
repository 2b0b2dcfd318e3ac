// Hooks of the C library functions that close descriptors: close, close_range, closefrom, and dup2 and dup3,
// which close the previous file of the number.
//
// Two kinds of descriptors matter. Channels of the connection manager (rdma_cm/station.h) belong to the
// program; their ids end with them. RRDMA's internal descriptors must survive a program that closes all
// descriptors that it does not know. Otherwise the NIC would write into other files that get the same
// numbers. To the program they are not open (EBADF). In a child (fork, vfork) they are copies and can be
// closed.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/next_symbol.h"
#include "base/own_descriptors.h"
#include "base/raw_syscall.h"
#include "host/explain.h"
#include "preload/rdma_cm/station.h"

#define RRDMA_HOOK extern "C" __attribute__((visibility("default")))

namespace {

using rrdma::DescriptorSet;
using rrdma::NextSymbol;
using rrdma::own_descriptors;
using rrdma::rdma_cm::Station;
namespace raw = rrdma::raw;

constinit NextSymbol<int(int)> next_close("close");
constinit NextSymbol<int(int, int)> next_dup2("dup2");
constinit NextSymbol<int(int, int, int)> next_dup3("dup3");
constinit NextSymbol<int(unsigned, unsigned, int)> next_close_range("close_range");

// The process that owns the descriptors of the set. In the child of a vfork this is still the parent.
std::atomic<pid_t> owner{0};

__attribute__((constructor)) void look_up_all() {
  static_cast<void>(*next_close);
  static_cast<void>(*next_dup2);
  static_cast<void>(*next_dup3);
  static_cast<void>(*next_close_range);
  owner = raw::getpid();
  static_cast<void>(pthread_atfork(nullptr, nullptr, [] {
    own_descriptors.clear();
    owner = raw::getpid();
  }));
}

bool in_owner() { return owner.load(std::memory_order_relaxed) == raw::getpid(); }
bool is_ours(int fd) { return own_descriptors.contains(fd) && in_owner(); }

int close_one(int fd) {
  auto* const next = *next_close;
  return next != nullptr ? next(fd) : raw::close(fd);
}

int pass_range(unsigned first, unsigned last, int flags) {
  auto* const next = *next_close_range;
  return next != nullptr ? next(first, last, flags)
                         : raw::close_range(first, last, static_cast<unsigned>(flags));
}

// Closes the range except our descriptors.
int close_around_ours(unsigned first, unsigned last, int flags) {
  for (;;) {
    int own = own_descriptors.next(static_cast<int>(std::min<unsigned>(first, DescriptorSet::kNumbers)));
    const bool found = own < DescriptorSet::kNumbers && static_cast<unsigned>(own) <= last;
    const unsigned end = found ? static_cast<unsigned>(own) : last;
    if (!found) return pass_range(first, last, flags);
    if (end != first && pass_range(first, end - 1, flags) != 0) return -1;
    if (end == last) return 0;
    first = end + 1;
  }
}

void end_channels(unsigned first, unsigned last) {
  for (int fd = Station::next_channel(static_cast<int>(std::min<unsigned>(first, DescriptorSet::kNumbers)));
       fd < DescriptorSet::kNumbers && static_cast<unsigned>(fd) <= last;
       fd = Station::next_channel(fd + 1)) {
    Station::instance().close(fd);
  }
}

// Prepares the number for another file. False: the descriptor is ours and stays.
bool make_room(int fd, const char* call) {
  if (is_ours(fd)) {
    rrdma::host::fail(
        EBUSY, call,
        "that number is a descriptor of RRDMA's own: take one that the program has opened, or a free "
        "one below 256.");
    return false;
  }
  if (Station::may_be_channel(fd)) Station::instance().close(fd);
  return true;
}

}  // namespace

RRDMA_HOOK int close(int fd) {
  if (is_ours(fd)) {
    errno = EBADF;
    return -1;
  }
  if (Station::may_be_channel(fd)) {
    Station::instance().close(fd);
    return raw::close(fd);
  }
  return close_one(fd);
}

RRDMA_HOOK int close_range(unsigned first, unsigned last, int flags) noexcept {
  constexpr int kMarkOnly = 1 << 2;  // CLOSE_RANGE_CLOEXEC: ours already have the flag
  if (first > last || (flags & kMarkOnly) != 0) return pass_range(first, last, flags);
  end_channels(first, last);
  if (!in_owner()) return pass_range(first, last, flags);
  return close_around_ours(first, last, flags);
}

RRDMA_HOOK void closefrom(int first) noexcept {
  const unsigned from = first < 0 ? 0 : static_cast<unsigned>(first);
  if (close_range(from, ~0u, 0) == 0) return;
  // Kernels before 5.9 lack close_range.
  const long limit = sysconf(_SC_OPEN_MAX);
  for (long fd = from; fd < limit; ++fd) static_cast<void>(close(static_cast<int>(fd)));
}

RRDMA_HOOK int dup2(int from, int to) noexcept {
  if (from != to && !make_room(to, "dup2")) return -1;
  auto* const next = *next_dup2;
  if (next != nullptr) return next(from, to);
  return from == to ? (raw::fcntl(from, F_GETFD) < 0 ? -1 : to) : raw::dup3(from, to, 0);
}

RRDMA_HOOK int dup3(int from, int to, int flags) noexcept {
  if (from != to && !make_room(to, "dup3")) return -1;
  auto* const next = *next_dup3;
  return next != nullptr ? next(from, to, flags) : raw::dup3(from, to, flags);
}
