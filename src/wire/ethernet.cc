#include "wire/ethernet.h"

#include <algorithm>

#include "base/assert.h"

namespace rrdma::wire {

Result<EthernetHeader, FrameError> parse_ethernet(Octets frame) {
  if (frame.size() < kEthernetOctets) return Failure{FrameError::kEthernetTooShort};
  EthernetHeader header;
  std::copy_n(frame.data(), 6, header.destination.octets.data());
  std::copy_n(frame.data() + 6, 6, header.source.octets.data());
  header.ether_type = load_be16(frame.data() + 12);
  if (header.ether_type == kEtherTypeVlan) {
    if (frame.size() < kEthernetOctets + kVlanTagOctets) return Failure{FrameError::kEthernetTooShort};
    const std::uint16_t tag = load_be16(frame.data() + 14);
    header.vlan = VlanTag{.priority = static_cast<std::uint8_t>(tag >> 13),
                          .drop_eligible = (tag & 0x1000) != 0,
                          .id = static_cast<std::uint16_t>(tag & 0x0fff)};
    header.ether_type = load_be16(frame.data() + 16);
  }
  if (header.ether_type < kEtherTypeMin) return Failure{FrameError::kNotEthernetII};
  return header;
}

std::size_t emit_ethernet(const EthernetHeader& header, MutableOctets to) {
  RRDMA_ASSERT(to.size() >= header.octets());
  std::copy_n(header.destination.octets.data(), 6, to.data());
  std::copy_n(header.source.octets.data(), 6, to.data() + 6);
  std::uint8_t* next = to.data() + 12;
  if (header.vlan) {
    store_be16(next, kEtherTypeVlan);
    store_be16(next + 2, static_cast<std::uint16_t>((header.vlan->priority & 7) << 13 |
                                                    (header.vlan->drop_eligible ? 0x1000 : 0) |
                                                    (header.vlan->id & 0x0fff)));
    next += kVlanTagOctets;
  }
  store_be16(next, header.ether_type);
  return header.octets();
}

}  // namespace rrdma::wire
