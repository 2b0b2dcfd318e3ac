// Addresses as headers hold them: bytes in wire order, compared byte by byte. gid.h holds RDMA's names for
// addresses, address_text.h the text forms.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "wire/gid.h"

namespace rrdma::wire {

struct MacAddress {
  std::array<std::uint8_t, 6> octets{};
  friend constexpr auto operator<=>(const MacAddress&, const MacAddress&) = default;
};

struct Ipv4Address {
  std::array<std::uint8_t, 4> octets{};
  friend constexpr auto operator<=>(const Ipv4Address&, const Ipv4Address&) = default;
};

struct Ipv6Address {
  std::array<std::uint8_t, 16> octets{};
  friend constexpr auto operator<=>(const Ipv6Address&, const Ipv6Address&) = default;
};

[[nodiscard]] inline Gid gid_of(const Ipv4Address& address) { return gid_of_ipv4(address.octets); }
[[nodiscard]] inline Gid gid_of(const Ipv6Address& address) { return {address.octets}; }

}  // namespace rrdma::wire
