// LIDs, for programs that were written for InfiniBand and do not use GIDs (RRDMA_LID=1, docs/adr/0009). RoCE
// has no LIDs, so they are derived. The LID of a port is the lower half of its interface's first IPv4
// address. A LID names the neighbour whose address has the same upper half.
//
//   10.77.0.2/24  has LID 0x0002;  from there LID 0x0007 leads to 10.77.0.7, LID 0x0107 leads nowhere
//
// Everything here is a pure function of the port's addresses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/device.h"
#include "wire/address.h"

namespace rrdma::host {

enum class LidRefusal : std::uint8_t {
  kZero,       // reserved: a port without a LID reports 0
  kElsewhere,  // not in the subnet, so the upper half is unknown
  kNoHost,     // the subnet's own address or its broadcast address
};

// The address that a LID names, seen from `own`. Its own LID always resolves.
Result<wire::Ipv4Address, LidRefusal> address_of_lid(wire::Ipv4Address own, unsigned prefix_length,
                                                     std::uint16_t lid);

// The port's own LID; 0 if it has no IPv4 address.
[[nodiscard]] std::uint16_t lid_of_port(const std::vector<GidEntry>& gids);

struct LidRoute {
  wire::Gid remote;
  std::uint32_t local_gid_index = 0;
};

// The route that a GRH would specify, or a sentence with the reason why the LID has none and the remedy.
Result<LidRoute, std::string> route_by_lid(const std::vector<GidEntry>& gids, std::string_view interface,
                                           std::uint16_t lid);

}  // namespace rrdma::host
