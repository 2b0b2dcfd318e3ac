#include "wire/address_text.h"

#include <arpa/inet.h>
#include "base/assert.h"
#include "base/format.h"

namespace rrdma::wire {
namespace {

std::string internet_text(int family, const std::uint8_t* octets) {
  char text[INET6_ADDRSTRLEN];
  RRDMA_ASSERT(inet_ntop(family, octets, text, sizeof text) != nullptr);
  return text;
}

}  // namespace

std::string to_text(const MacAddress& address) {
  const auto& o = address.octets;
  return formatted("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", o[0], o[1], o[2], o[3], o[4], o[5]);
}

std::string to_text(const Ipv4Address& address) { return internet_text(AF_INET, address.octets.data()); }

std::string to_text(const Ipv6Address& address) { return internet_text(AF_INET6, address.octets.data()); }

std::string to_text(const Gid& gid) {
  return gid.is_ipv4() ? internet_text(AF_INET, gid.ipv4().data())
                       : internet_text(AF_INET6, gid.octets.data());
}

std::optional<Gid> gid_of_text(std::string_view text) {
  const std::string copy(text);
  Ipv4Address four;
  Gid gid;
  if (::inet_pton(AF_INET, copy.c_str(), four.octets.data()) == 1) return gid_of(four);
  if (::inet_pton(AF_INET6, copy.c_str(), gid.octets.data()) == 1) return gid;
  return std::nullopt;
}

}  // namespace rrdma::wire
