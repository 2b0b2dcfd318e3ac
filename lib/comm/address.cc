#include "lib/comm/address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <array>
#include <charconv>
#include <cstring>
#include <memory>

namespace rrdma::comm {
inline namespace v0 {
namespace detail {
namespace {

Error bad_address(std::string_view text, std::string why) {
  return Error(Code::kBadAddress, During::kConnect).with_peer(std::string(text)).with_note(std::move(why));
}

Result<std::vector<SocketAddress>> resolve(const HostPort& address, int flags) {
  addrinfo hints{};
  hints.ai_flags = flags | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  if (status != 0) return bad_address(address.host + ":" + address.port, ::gai_strerror(status));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  std::vector<SocketAddress> all;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET || one->ai_family == AF_INET6)
      all.push_back(SocketAddress::of(one->ai_addr));
  }
  if (!all.empty()) return all;
  return bad_address(address.host, "it has neither an IPv4 nor an IPv6 address");
}

Result<SocketAddress> first_of(const Result<std::vector<SocketAddress>>& all) {
  if (!all) return all.error();
  return all->front();
}

}  // namespace

SocketAddress SocketAddress::of(const sockaddr* address) {
  SocketAddress result;
  std::memcpy(&result.storage, address,
              address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  return result;
}

Result<HostPort> parse_address(std::string_view text, bool may_be_any) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad_address(text, "no port: write host:port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  unsigned number = 0;
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || parsed.ec != std::errc() || parsed.ptr != port.data() + port.size() || number > 65535) {
    return bad_address(text, "the port is no number from 0 to 65535");
  }
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad_address(text, "an IPv6 address needs brackets: [::1]:7000");
  }
  if (host.empty() && !may_be_any) return bad_address(text, "no host: write host:port");
  return HostPort{std::string(host), std::string(port)};
}

Result<SocketAddress> numeric_address(const HostPort& address) {
  return first_of(resolve(address, AI_NUMERICHOST));
}
Result<std::vector<SocketAddress>> look_up_all(const HostPort& address) { return resolve(address, 0); }
Result<SocketAddress> look_up(const HostPort& address) { return first_of(look_up_all(address)); }

std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, address, sizeof(v6));
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  sockaddr_in v4{};
  std::memcpy(&v4, address, sizeof(v4));
  ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  return std::string(text.data()) + ":" + std::to_string(ntohs(v4.sin_port));
}

std::uint16_t port_of(const sockaddr* address) {
  sockaddr_in v4{};
  std::memcpy(&v4, address, sizeof(v4));
  return ntohs(v4.sin_port);  // the same offset in both families
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
