// Addresses as text ("host:port", "[ipv6]:port", ":port") and as socket addresses.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rrdma/comm/error.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

struct HostPort {
  std::string host;  // empty: every address
  std::string port;
};

struct SocketAddress {
  sockaddr_storage storage{};
  [[nodiscard]] sockaddr* generic() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&storage); }
  static SocketAddress of(const sockaddr* address);
};

// `may_be_any`: the host may be omitted.
Result<HostPort> parse_address(std::string_view text, bool may_be_any);
// Accepts numeric addresses only. Fails with kBadAddress for a name.
Result<SocketAddress> numeric_address(const HostPort& address);
// Also resolves names, which may block for a long time. Names may have several addresses.
Result<std::vector<SocketAddress>> look_up_all(const HostPort& address);
Result<SocketAddress> look_up(const HostPort& address);
std::string text_of(const sockaddr* address);
std::uint16_t port_of(const sockaddr* address);

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
