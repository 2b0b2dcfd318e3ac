#include "base/entropy.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/assert.h"
#include "base/raw_syscall.h"

namespace rrdma {
namespace {

// The fallback if a seccomp filter forbids getrandom(2).
void fill_from_device(std::span<std::uint8_t> octets) {
  const int fd = raw::open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  const bool kernel_gives_random_numbers = fd >= 0;
  RRDMA_ASSERT(kernel_gives_random_numbers);
  while (!octets.empty()) {
    const ssize_t got = raw::read(fd, octets.data(), octets.size());
    if (got < 0 && errno == EINTR) continue;
    RRDMA_ASSERT(got > 0);
    octets = octets.subspan(static_cast<std::size_t>(got));
  }
  raw::close(fd);
}

}  // namespace

void fill_with_system_entropy(std::span<std::uint8_t> octets) {
  while (!octets.empty()) {
    const ssize_t got = ::syscall(SYS_getrandom, octets.data(), octets.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fill_from_device(octets);
    octets = octets.subspan(static_cast<std::size_t>(got));
  }
}

std::uint64_t system_entropy() {
  std::uint64_t value = 0;
  fill_with_system_entropy({reinterpret_cast<std::uint8_t*>(&value), sizeof value});
  return value;
}

KeySource system_keys() {
  const std::uint64_t low = system_entropy();
  return {low, system_entropy()};
}

}  // namespace rrdma
