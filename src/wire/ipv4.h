// IPv4 headers. Options are accepted and kept. The header checksum is computed and checked. Fragments are
// refused, because no fragment is a RoCE packet.
//
//   version(4)=4 header-words(4) TOS(8) total-length(16) | identification(16) 0 DF MF offset(13) |
//   TTL(8) protocol(8) checksum(16) | source(32) | destination(32) | options
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/octets.h"
#include "base/result.h"
#include "wire/address.h"
#include "wire/frame_error.h"

namespace rrdma::wire {

inline constexpr std::size_t kIpv4Octets = 20;  // without options
inline constexpr std::size_t kIpv4OptionsMax = 40;
inline constexpr std::size_t kIpv4OctetsMax = kIpv4Octets + kIpv4OptionsMax;
inline constexpr std::uint8_t kIpProtocolUdp = 17;

struct Ipv4Header {
  std::uint8_t tos = 0;
  std::uint16_t total_length = 0;  // header and everything behind it
  std::uint16_t identification = 0;
  bool dont_fragment = true;
  std::uint8_t ttl = 64;
  std::uint8_t protocol = kIpProtocolUdp;
  Ipv4Address source;
  Ipv4Address destination;
  std::uint8_t options_octets = 0;                      // a multiple of 4, at most kIpv4OptionsMax
  std::array<std::uint8_t, kIpv4OptionsMax> options{};  // zero behind options_octets
  friend bool operator==(const Ipv4Header&, const Ipv4Header&) = default;

  [[nodiscard]] std::size_t octets() const { return kIpv4Octets + options_octets; }
};

// `packet` starts at the header and may extend beyond the total length (Ethernet padding).
[[nodiscard]] Result<Ipv4Header, FrameError> parse_ipv4(Octets packet);

// Writes the header with its checksum. Returns `header.octets()`. REQUIRES: room for them.
std::size_t emit_ipv4(const Ipv4Header& header, MutableOctets to);

}  // namespace rrdma::wire
