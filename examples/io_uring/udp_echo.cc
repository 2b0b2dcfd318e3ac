// A UDP echo server. kUnderWay receives wait in the ring at the same time. Each completed receive becomes a
// send back to its source, and then a receive again. One system call serves many datagrams.
//   uring_udp_echo [PORT] [COUNT]   (7777; 0: forever)
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "examples/io_uring/ring.h"

namespace examples {
namespace {

constexpr std::size_t kUnderWay = 8;
constexpr std::size_t kDatagramMax = 2048;

// One datagram being received or sent. It must not move, because the kernel accesses it until the completion.
struct Parcel {
  std::array<std::uint8_t, kDatagramMax> octets;
  sockaddr_in peer{};
  iovec piece{};
  msghdr message{};
  bool leaving = false;
};

void post_receive(Ring& ring, int socket, Parcel& parcel) {
  parcel.leaving = false;
  parcel.piece = {parcel.octets.data(), parcel.octets.size()};
  parcel.message = {};
  parcel.message.msg_name = &parcel.peer;
  parcel.message.msg_namelen = sizeof parcel.peer;
  parcel.message.msg_iov = &parcel.piece;
  parcel.message.msg_iovlen = 1;
  io_uring_sqe* request = ring.request();
  io_uring_prep_recvmsg(request, socket, &parcel.message, 0);
  io_uring_sqe_set_data(request, &parcel);
}

void post_echo(Ring& ring, int socket, Parcel& parcel, std::size_t octets) {
  parcel.leaving = true;
  parcel.piece.iov_len = octets;
  io_uring_sqe* request = ring.request();
  io_uring_prep_sendmsg(request, socket, &parcel.message, 0);
  io_uring_sqe_set_data(request, &parcel);
}

// A pending receive holds the socket, and thus the port, for a while even after the program has ended.
// REQUIRES: one request of each parcel is in flight.
void cancel_all(Ring& ring, std::array<Parcel, kUnderWay>& parcels) {
  for (Parcel& parcel : parcels) {
    io_uring_sqe* request = ring.request();
    io_uring_prep_cancel(request, &parcel, 0);
    io_uring_sqe_set_data(request, nullptr);
  }
  ring.submit();
  // Both complete: the cancelled request and the request to cancel it.
  for (std::size_t left = 2 * parcels.size(); left > 0; --left) (void)ring.wait();
}

int open_socket(std::uint16_t port) {
  const int made = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_port = htons(port);
  if (made < 0 || bind(made, reinterpret_cast<sockaddr*>(&own), sizeof own) != 0) fail("bind", errno);
  return made;
}

int run(std::uint16_t port, unsigned long count) {
  const int socket = open_socket(port);
  Ring ring(2 * kUnderWay);
  static std::array<Parcel, kUnderWay> parcels;
  for (Parcel& parcel : parcels) post_receive(ring, socket, parcel);
  std::printf("Listening on UDP port %u, %zu receives posted\n", port, kUnderWay);
  std::fflush(stdout);
  for (unsigned long echoed = 0; count == 0 || echoed < count;) {
    ring.submit();
    const Ring::Completion done = ring.wait();
    auto& parcel = *static_cast<Parcel*>(done.data);
    if (done.result < 0) fail(parcel.leaving ? "sendmsg" : "recvmsg", done.result);
    if (parcel.leaving) {
      ++echoed;
      post_receive(ring, socket, parcel);
    } else {
      char from[INET_ADDRSTRLEN] = "";
      inet_ntop(AF_INET, &parcel.peer.sin_addr, from, sizeof from);
      std::printf("%d bytes from %s port %u\n", done.result, from, ntohs(parcel.peer.sin_port));
      std::fflush(stdout);
      post_echo(ring, socket, parcel, static_cast<std::size_t>(done.result));
    }
  }
  cancel_all(ring, parcels);
  close(socket);
  return 0;
}

}  // namespace
}  // namespace examples

int main(int count, char** words) {
  const unsigned long port = count > 1 ? std::strtoul(words[1], nullptr, 10) : 7777;
  if (count > 3 || port == 0 || port > 65535) {
    std::fprintf(stderr, "usage: %s [PORT] [COUNT]\n", words[0]);
    return 2;
  }
  return examples::run(static_cast<std::uint16_t>(port), count > 2 ? std::strtoul(words[2], nullptr, 10) : 0);
}
