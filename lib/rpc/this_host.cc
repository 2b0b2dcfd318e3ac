#include "lib/rpc/this_host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <string>

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {
namespace {

// Compares the address of an interface. Interfaces have addresses of several families, and some have none.
bool is_address_of(const sockaddr* interface, int family, const in6_addr& address) {
  if (interface == nullptr || interface->sa_family != family) return false;
  if (family == AF_INET) {
    sockaddr_in own{};
    std::memcpy(&own, interface, sizeof(own));
    return std::memcmp(&own.sin_addr, &address, sizeof(own.sin_addr)) == 0;
  }
  sockaddr_in6 own{};
  std::memcpy(&own, interface, sizeof(own));
  return std::memcmp(&own.sin6_addr, &address, sizeof(own.sin6_addr)) == 0;
}

}  // namespace

bool on_this_host(std::string_view address) {
  std::string_view host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  host = host.substr(0, host.find('%'));
  in6_addr octets{};  // has room for both families
  int family = AF_INET;
  if (::inet_pton(family, std::string(host).c_str(), &octets) != 1) {
    family = AF_INET6;
    if (::inet_pton(family, std::string(host).c_str(), &octets) != 1) return false;
  }
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(all, &::freeifaddrs);
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (is_address_of(at->ifa_addr, family, octets)) return true;
  }
  return false;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
