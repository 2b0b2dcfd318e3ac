// FrameError: why the headers around a transport packet (Ethernet, IP, UDP, GRH) were refused. A foreign
// frame is other traffic and no error; every other value denotes a malformed RoCE frame.
#pragma once

#include <cstdint>
#include <string_view>

namespace rrdma::wire {

enum class FrameError : std::uint8_t {
  // Foreign: other traffic.
  kNotEthernetII,    // an 802.3 length in place of the EtherType
  kOtherEtherType,   // neither IPv4, IPv6 nor RoCE v1
  kOtherProtocol,    // IP without UDP
  kOtherPort,        // UDP to a port other than 4791
  kOtherNextHeader,  // a GRH that is not followed by a BTH
  kOtherLinkType,    // a capture of a link that carries neither Ethernet nor IP
  // Bad: a malformed RoCE frame.
  kEthernetTooShort,
  kIpTooShort,           // shorter than an IP header
  kIpVersion,            // the version field contradicts the EtherType
  kIpHeaderLength,       // IPv4 header length below 20 bytes or beyond the packet
  kIpLengthBeyondFrame,  // the header announces more bytes than there are
  kIpLengthTooSmall,     // the total length is smaller than the header
  kIpReservedFlag,
  kIpFragment,
  kIpChecksum,
  kIpExtensionHeader,  // RoCE v2 permits no IPv6 extension headers
  kUdpTooShort,
  kUdpLength,          // differs from the length in the IP header
  kTransportTooShort,  // no room for a BTH and the ICRC
};

[[nodiscard]] constexpr bool is_foreign(FrameError error) { return error <= FrameError::kOtherLinkType; }

[[nodiscard]] std::string_view describe(FrameError error);

}  // namespace rrdma::wire
