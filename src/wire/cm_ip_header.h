// The IP-CM header (IBTA annex A11): the first 36 bytes of the private data of a REQ or SIDR_REQ whose
// service ID names an IP port. It tells the listener the caller's address and the address that was called.
//
//   major version(4) minor version(4) | IP version(4) reserved(4) | source port(16) |
//   source address(128) | destination address(128); an IPv4 address takes the last 32 bits
//
// Service ID of an IP port: 00 00 00 00 01 | protocol(8) | port(16).
#pragma once

#include <cstdint>
#include <optional>

#include "base/octets.h"
#include "base/result.h"
#include "wire/address.h"
#include "wire/mad.h"

namespace rrdma::wire {

inline constexpr std::size_t kIpCmHeaderOctets = 36;

enum class IpVersion : std::uint8_t { kIpv4 = 4, kIpv6 = 6 };

struct IpCmHeader {
  IpVersion version = IpVersion::kIpv4;
  std::uint16_t source_port = 0;
  Gid source;  // an IPv4 address is mapped as ::ffff:a.b.c.d
  Gid destination;
  friend bool operator==(const IpCmHeader&, const IpCmHeader&) = default;
};

// Reads the first kIpCmHeaderOctets of the private data.
[[nodiscard]] Result<IpCmHeader, MadError> parse_ip_cm_header(Octets private_data);
// REQUIRES: room for kIpCmHeaderOctets; for kIpv4, both addresses are IPv4-mapped.
void emit_ip_cm_header(const IpCmHeader& header, MutableOctets to);

// The port spaces of rdma_cm. The values are the IP protocol numbers in the service ID.
enum class PortSpace : std::uint8_t { kTcp = 0x06, kUdp = 0x11, kIb = 0x3f };

struct IpService {
  PortSpace port_space = PortSpace::kTcp;
  std::uint16_t port = 0;
  friend bool operator==(const IpService&, const IpService&) = default;
};

[[nodiscard]] constexpr std::uint64_t service_id_of(IpService service) {
  return 0x0000000001000000 | static_cast<std::uint64_t>(service.port_space) << 16 | service.port;
}
// Empty if the service ID names no port of a known port space.
[[nodiscard]] std::optional<IpService> ip_service_of(std::uint64_t service_id);

}  // namespace rrdma::wire
