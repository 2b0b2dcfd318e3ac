#include "wire/frame_error.h"

namespace rrdma::wire {

std::string_view describe(FrameError error) {
  switch (error) {
    case FrameError::kNotEthernetII: return "802.3 length instead of an EtherType";
    case FrameError::kOtherEtherType: return "EtherType is neither IPv4, IPv6 nor RoCE v1";
    case FrameError::kOtherProtocol: return "IP protocol is not UDP";
    case FrameError::kOtherPort: return "UDP destination port is not 4791";
    case FrameError::kOtherNextHeader: return "GRH next header is not a BTH";
    case FrameError::kOtherLinkType: return "link type carries neither Ethernet nor IP";
    case FrameError::kEthernetTooShort: return "shorter than an Ethernet header";
    case FrameError::kIpTooShort: return "shorter than an IP header";
    case FrameError::kIpVersion: return "IP version does not fit the EtherType";
    case FrameError::kIpHeaderLength: return "IPv4 header length is impossible";
    case FrameError::kIpLengthBeyondFrame: return "IP length goes beyond the frame";
    case FrameError::kIpLengthTooSmall: return "IP length is smaller than its header";
    case FrameError::kIpReservedFlag: return "IPv4 reserved flag is set";
    case FrameError::kIpFragment: return "IPv4 fragment";
    case FrameError::kIpChecksum: return "IPv4 header checksum is wrong";
    case FrameError::kIpExtensionHeader: return "IPv6 extension header";
    case FrameError::kUdpTooShort: return "shorter than a UDP header";
    case FrameError::kUdpLength: return "UDP length differs from the IP payload";
    case FrameError::kTransportTooShort: return "no room for a BTH and an ICRC";
  }
  return "unknown error";
}

}  // namespace rrdma::wire
