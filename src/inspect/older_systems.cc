// libevent's static library needs random functions of glibc 2.36. These definitions let `rrdma` load on
// systems with an older glibc (tests/tools/commands/older_systems_test.py). The server itself gets random
// numbers from the kernel (server.cc).
#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" void arc4random_buf(void* to, std::size_t length) {
  auto* at = static_cast<std::uint8_t*>(to);
  while (length > 0) {
    const ssize_t got = getrandom(at, length, 0);
    if (got < 0) std::abort();
    at += got;
    length -= static_cast<std::size_t>(got);
  }
}

extern "C" std::uint32_t arc4random() {
  std::uint32_t value = 0;
  arc4random_buf(&value, sizeof value);
  return value;
}
