// LinkType: the first header of a captured packet, by the numbers that pcap and pcapng share. Other values
// are kept as numbers; no parser of RRDMA knows them.
#pragma once

#include <cstdint>

namespace rrdma::wire {

enum class LinkType : std::uint16_t {
  kEthernet = 1,
  kRawIp = 101,  // IPv4 or IPv6, by the version field
  kIpv4 = 228,
  kIpv6 = 229,
};

}  // namespace rrdma::wire
