// Gid: a 128-bit global identifier. In RoCEv2 it is an IPv6 address, or an IPv4 address as ::ffff:a.b.c.d.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>

namespace rrdma::wire {

struct Gid {
  std::array<std::uint8_t, 16> octets{};
  friend auto operator<=>(const Gid&, const Gid&) = default;
  // Compares two words: std::array's comparison is a call, and every packet needs two.
  friend constexpr bool operator==(const Gid& a, const Gid& b) {
    using Words = std::array<std::uint64_t, 2>;
    return std::bit_cast<Words>(a.octets) == std::bit_cast<Words>(b.octets);
  }

  [[nodiscard]] bool is_ipv4() const {
    static constexpr std::uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(octets.data(), kPrefix, sizeof kPrefix) == 0;
  }
  [[nodiscard]] bool is_multicast() const {
    return is_ipv4() ? (octets[12] & 0xf0) == 0xe0 : octets[0] == 0xff;
  }
  // fe80::/10: meaningful only together with an interface.
  [[nodiscard]] bool is_link_local() const { return octets[0] == 0xfe && (octets[1] & 0xc0) == 0x80; }
  [[nodiscard]] bool is_zero() const { return *this == Gid{}; }
  // The four bytes of an IPv4 address, in network order. REQUIRES: is_ipv4().
  [[nodiscard]] std::array<std::uint8_t, 4> ipv4() const {
    return {octets[12], octets[13], octets[14], octets[15]};
  }
};

inline Gid gid_of_ipv4(std::array<std::uint8_t, 4> address) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, address[0], address[1], address[2], address[3]}};
}

}  // namespace rrdma::wire
