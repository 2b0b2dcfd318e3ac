// FrameError: why the octets around a transport packet (Ethernet, IP, UDP, GRH) were refused. A foreign
// frame is none of our business and is no fault; everything else is a RoCE frame that is wrong.
#pragma once

#include <cstdint>
#include <string_view>

namespace rrdma::wire {

enum class FrameError : std::uint8_t {
  // Foreign: other traffic.
  kNotEthernetII,    // an 802.3 length where the EtherType belongs
  kOtherEtherType,   // neither IPv4, IPv6 nor RoCE v1
  kOtherProtocol,    // IP without UDP
  kOtherPort,        // UDP to another port than 4791
  kOtherNextHeader,  // a GRH that no BTH follows
  kOtherLinkType,    // a capture of a link that carries no Ethernet and no IP
  // Bad: refused with a reason.
  kEthernetTooShort,
  kIpTooShort,           // fewer octets than an IP header
  kIpVersion,            // the version field contradicts the EtherType
  kIpHeaderLength,       // IPv4 header length below 20 octets or beyond the packet
  kIpLengthBeyondFrame,  // the header announces more octets than there are
  kIpLengthTooSmall,     // the total length is smaller than the header
  kIpReservedFlag,
  kIpFragment,
  kIpChecksum,
  kIpExtensionHeader,  // IPv6 extension headers: RoCE v2 has none
  kUdpTooShort,
  kUdpLength,          // differs from what the IP header leaves
  kTransportTooShort,  // no room for a BTH and the ICRC
};

[[nodiscard]] constexpr bool is_foreign(FrameError error) { return error <= FrameError::kOtherLinkType; }

[[nodiscard]] std::string_view describe(FrameError error);

}  // namespace rrdma::wire
