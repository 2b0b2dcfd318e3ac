// LinkType: what a captured packet begins with, by the numbers that pcap and pcapng share. Others than
// these are kept as their number; no parser of RRDMA knows them.
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
