// The Ethernet addresses that a GID itself contains.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "wire/gid.h"

namespace rrdma::verbs {

using Mac = std::array<std::uint8_t, 6>;

// Of a multicast address, by RFC 1112 (IPv4) and RFC 2464 (IPv6).
inline std::optional<Mac> multicast_mac(const wire::Gid& gid) {
  if (!gid.is_multicast()) return std::nullopt;
  const auto& octets = gid.octets;
  if (!gid.is_ipv4()) return Mac{0x33, 0x33, octets[12], octets[13], octets[14], octets[15]};
  return Mac{0x01, 0x00, 0x5e, static_cast<std::uint8_t>(octets[13] & 0x7f), octets[14], octets[15]};
}

// Of an IPv6 address whose lower half is a modified EUI-64 (RFC 4291, appendix A).
inline std::optional<Mac> embedded_mac(const wire::Gid& gid) {
  const auto& octets = gid.octets;
  if (octets[11] != 0xff || octets[12] != 0xfe) return std::nullopt;
  constexpr std::uint8_t kUniversalBit = 2;
  return Mac{static_cast<std::uint8_t>(octets[8] ^ kUniversalBit),
             octets[9],
             octets[10],
             octets[13],
             octets[14],
             octets[15]};
}

}  // namespace rrdma::verbs
