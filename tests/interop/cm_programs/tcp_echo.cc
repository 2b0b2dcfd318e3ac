// A TCP echo server and client that know nothing of RDMA, for librspreload. Uses plain sockets only.
//
//   tcp_echo server ADDRESS PORT        one connection, echoes until it ends
//   tcp_echo client ADDRESS PORT        sends rounds of growing size and compares the echo
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int kRounds = 40;
constexpr std::size_t kStep = 3001;

int complain(const char* what) {
  std::perror(what);
  return 1;
}

bool send_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(fd, data, size, 0);
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

int serve(const addrinfo& address) {
  const int listener = ::socket(address.ai_family, SOCK_STREAM, 0);
  if (listener < 0) return complain("socket");
  const int yes = 1;
  (void)::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(listener, address.ai_addr, address.ai_addrlen) != 0) return complain("bind");
  if (::listen(listener, 5) != 0) return complain("listen");
  std::puts("listening");
  std::fflush(stdout);
  const int fd = ::accept(listener, nullptr, nullptr);
  if (fd < 0) return complain("accept");
  std::vector<char> buffer(65536);
  std::size_t total = 0;
  for (;;) {
    const ssize_t size = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (size <= 0) break;
    if (!send_all(fd, buffer.data(), static_cast<std::size_t>(size))) return complain("send");
    total += static_cast<std::size_t>(size);
  }
  std::printf("echoed %zu\n", total);
  ::close(fd);
  ::close(listener);
  return 0;
}

int call(const addrinfo& address) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM, 0);
  if (fd < 0) return complain("socket");
  if (::connect(fd, address.ai_addr, address.ai_addrlen) != 0) return complain("connect");
  for (int round = 1; round <= kRounds; ++round) {
    const std::size_t size = static_cast<std::size_t>(round) * kStep;
    std::vector<char> message(size), answer(size);
    for (std::size_t i = 0; i < size; ++i)
      message[i] = static_cast<char>(i * 7 + static_cast<std::size_t>(round));
    if (!send_all(fd, message.data(), size)) return complain("send");
    for (std::size_t got = 0; got < size;) {
      const ssize_t more = ::recv(fd, answer.data() + got, size - got, 0);
      if (more <= 0) return complain("recv");
      got += static_cast<std::size_t>(more);
    }
    if (message != answer) return complain("the echo differs");
  }
  ::shutdown(fd, SHUT_RDWR);
  ::close(fd);
  std::puts("all echoes right");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* address = nullptr;
  if (::getaddrinfo(argv[2], argv[3], &hints, &address) != 0) return 2;
  return std::strcmp(argv[1], "server") == 0 ? serve(*address) : call(*address);
}
