// Ethernet II headers, with at most one 802.1Q tag.
//
//   destination(48) source(48) [ 0x8100(16) priority(3) drop-eligible(1) VLAN(12) ] EtherType(16)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/octets.h"
#include "base/result.h"
#include "wire/address.h"
#include "wire/frame_error.h"

namespace rrdma::wire {

inline constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr std::uint16_t kEtherTypeVlan = 0x8100;
inline constexpr std::uint16_t kEtherTypeIpv6 = 0x86dd;
inline constexpr std::uint16_t kEtherTypeRoceV1 = 0x8915;
// A smaller value is the length of an 802.3 frame.
inline constexpr std::uint16_t kEtherTypeMin = 0x0600;

inline constexpr std::size_t kEthernetOctets = 14;
inline constexpr std::size_t kVlanTagOctets = 4;

struct VlanTag {
  std::uint8_t priority = 0;  // 3 bits
  bool drop_eligible = false;
  std::uint16_t id = 0;  // 12 bits
  friend bool operator==(const VlanTag&, const VlanTag&) = default;
};

struct EthernetHeader {
  MacAddress destination;
  MacAddress source;
  std::optional<VlanTag> vlan;
  std::uint16_t ether_type = 0;  // of the payload, behind the tag
  friend bool operator==(const EthernetHeader&, const EthernetHeader&) = default;

  [[nodiscard]] std::size_t octets() const { return kEthernetOctets + (vlan ? kVlanTagOctets : 0); }
};

[[nodiscard]] Result<EthernetHeader, FrameError> parse_ethernet(Octets frame);

// Returns the number of bytes written, `header.octets()`. REQUIRES: room for them.
std::size_t emit_ethernet(const EthernetHeader& header, MutableOctets to);

}  // namespace rrdma::wire
