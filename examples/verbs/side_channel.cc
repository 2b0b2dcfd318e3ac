#include "examples/verbs/side_channel.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstring>

namespace examples {
namespace {

constexpr std::size_t kLineMax = 512;
constexpr std::uint32_t kSizeMax = 1u << 30;

addrinfo* look_up(const std::string& address, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.empty() ? nullptr : address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) fail(address + ": " + gai_strerror(error));
  return found;
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Socket Socket::listen(const std::string& address, std::uint16_t port) {
  addrinfo* found = look_up(address, port, AI_PASSIVE);
  Socket made(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(made.descriptor_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(made.descriptor_, found->ai_addr, found->ai_addrlen) != 0 || ::listen(made.descriptor_, 16) != 0) {
    fail("listening on port " + std::to_string(port), errno);
  }
  freeaddrinfo(found);
  return made;
}

Socket Socket::accept() const {
  const int descriptor = accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
  if (descriptor < 0) fail("accept", errno);
  return Socket(descriptor);
}

Socket Socket::connect(const std::string& address, std::uint16_t port) {
  addrinfo* found = look_up(address, port, 0);
  int error = ECONNREFUSED;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Socket made(socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(made.descriptor_, entry->ai_addr, entry->ai_addrlen) == 0) {
      freeaddrinfo(found);
      return made;
    }
    error = errno;
  }
  fail("calling " + address + " port " + std::to_string(port) + " (is rdma_server running there?)", error);
}

void Socket::write_line(const std::string& line) const {
  const std::string text = line + "\n";
  if (send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    fail("writing to the other end", errno);
}

std::string Socket::read_line() const {
  std::string line;
  char letter = 0;
  while (line.size() < kLineMax && recv(descriptor_, &letter, 1, 0) == 1) {
    if (letter == '\n') return line;
    line += letter;
  }
  fail("the other end hung up before it said everything");
}

std::string line_of(const Endpoint& endpoint) {
  char text[kLineMax];
  int used = std::snprintf(text, sizeof text, "qp %06x psn %06x mtu %u address %016" PRIx64 " rkey %08x gid ",
                           endpoint.queue_pair, endpoint.first_psn, endpoint.mtu, endpoint.memory.address,
                           endpoint.memory.key);
  for (const std::uint8_t octet : endpoint.gid.raw)
    used += std::snprintf(text + used, sizeof text - static_cast<std::size_t>(used), "%02x", octet);
  return text;
}

Endpoint endpoint_of(const std::string& line) {
  Endpoint endpoint;
  unsigned mtu = 0;
  char gid[33] = "";
  if (std::sscanf(line.c_str(), "qp %x psn %x mtu %u address %" SCNx64 " rkey %x gid %32s",
                  &endpoint.queue_pair, &endpoint.first_psn, &mtu, &endpoint.memory.address,
                  &endpoint.memory.key, gid) != 6 ||
      std::strlen(gid) != 32 || mtu < IBV_MTU_256 || mtu > IBV_MTU_4096) {
    fail("the other end speaks another language: '" + line + "'");
  }
  endpoint.mtu = static_cast<ibv_mtu>(mtu);
  for (int i = 0; i < 16; ++i) {
    const char digits[3] = {gid[2 * i], gid[2 * i + 1], 0};
    endpoint.gid.raw[i] = static_cast<std::uint8_t>(std::strtoul(digits, nullptr, 16));
  }
  return endpoint;
}

std::string line_of(const Plan& plan) {
  return "mode " + std::to_string(static_cast<unsigned>(plan.mode)) + " rounds " +
         std::to_string(plan.rounds) + " size " + std::to_string(plan.size);
}

Plan plan_of(const std::string& line) {
  Plan plan;
  unsigned mode = 0;
  if (std::sscanf(line.c_str(), "mode %u rounds %u size %u", &mode, &plan.rounds, &plan.size) != 3 ||
      mode > 3 || plan.rounds == 0 || plan.size == 0 || plan.size > kSizeMax) {
    fail("the client wants something unknown: '" + line + "'");
  }
  plan.mode = static_cast<Mode>(mode);
  return plan;
}

}  // namespace examples
