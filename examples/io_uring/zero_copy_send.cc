// Sends datagrams without copying. The buffer is registered once, like a memory region in RDMA, and each
// request refers to it by its index. A zero-copy send has two completions: the first reports the send, the
// second that the network no longer uses the buffer. Only then may the buffer be changed.
//   uring_zero_copy_send ADDRESS PORT [COUNT]
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "examples/io_uring/ring.h"

namespace examples {
namespace {

constexpr std::size_t kOctets = 1024;
constexpr unsigned kBuffer = 0;

struct Outcome {
  int sent;
  bool notified;
};

// Sends once and waits until the buffer is free again.
Outcome send_once(Ring& ring, int socket, std::vector<std::uint8_t>& buffer) {
  io_uring_sqe* request = ring.request();
  io_uring_prep_send_zc_fixed(request, socket, buffer.data(), buffer.size(), 0, 0, kBuffer);
  ring.submit();
  Outcome outcome{.sent = 0, .notified = false};
  for (bool more = true; more;) {
    const Ring::Completion done = ring.wait();
    more = (done.flags & IORING_CQE_F_MORE) != 0;
    if ((done.flags & IORING_CQE_F_NOTIF) != 0) {
      outcome.notified = true;
    } else {
      outcome.sent = done.result;
    }
  }
  return outcome;
}

int connected_socket(const char* address, std::uint16_t port) {
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(port);
  if (inet_pton(AF_INET, address, &peer.sin_addr) != 1) fail(address, EINVAL);
  const int made = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (made < 0 || connect(made, reinterpret_cast<sockaddr*>(&peer), sizeof peer) != 0) fail("connect", errno);
  return made;
}

int run(const char* address, std::uint16_t port, unsigned long count) {
  const int socket = connected_socket(address, port);
  Ring ring(8);
  std::vector<std::uint8_t> buffer(kOctets);
  const iovec registered{buffer.data(), buffer.size()};
  if (const int status = io_uring_register_buffers(&ring, &registered, 1); status < 0)
    fail("io_uring_register_buffers", status);
  std::printf("1. Registered a buffer of %zu bytes: the kernel has pinned it as buffer %u\n", kOctets,
              kBuffer);
  unsigned long notified = 0;
  for (unsigned long i = 0; i < count; ++i) {
    for (std::uint8_t& octet : buffer) octet = static_cast<std::uint8_t>('a' + i % 26);
    const Outcome outcome = send_once(ring, socket, buffer);
    if (outcome.sent == -EINVAL) {
      std::fprintf(stderr, "this kernel has no zero-copy send (Linux 6.0 and later do)\n");
      return 77;
    }
    if (outcome.sent < 0) fail("send", outcome.sent);
    if (outcome.notified) ++notified;
  }
  close(socket);
  std::printf("2. Sent %lu datagrams; the kernel released the buffer %lu times\n", count, notified);
  return notified == count ? 0 : 1;
}

}  // namespace
}  // namespace examples

int main(int count, char** words) {
  const unsigned long port = count > 2 ? std::strtoul(words[2], nullptr, 10) : 0;
  if (count < 3 || count > 4 || port == 0 || port > 65535) {
    std::fprintf(stderr, "usage: %s ADDRESS PORT [COUNT]\n", words[0]);
    return 2;
  }
  return examples::run(words[1], static_cast<std::uint16_t>(port),
                       count > 3 ? std::strtoul(words[3], nullptr, 10) : 10);
}
