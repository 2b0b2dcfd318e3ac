#include "wire/cm_ip_header.h"

#include <algorithm>

#include "base/assert.h"

namespace rrdma::wire {
namespace {

Gid parse_address(const std::uint8_t* from, IpVersion version) {
  if (version == IpVersion::kIpv4) return gid_of(Ipv4Address{{from[12], from[13], from[14], from[15]}});
  Gid gid;
  std::copy_n(from, gid.octets.size(), gid.octets.begin());
  return gid;
}

void emit_address(const Gid& gid, IpVersion version, std::uint8_t* to) {
  std::copy(gid.octets.begin(), gid.octets.end(), to);
  if (version != IpVersion::kIpv4) return;
  RRDMA_ASSERT(gid.is_ipv4());
  to[10] = to[11] = 0;
}

}  // namespace

Result<IpCmHeader, MadError> parse_ip_cm_header(Octets private_data) {
  RRDMA_ASSERT(private_data.size() >= kIpCmHeaderOctets);
  const std::uint8_t* p = private_data.data();
  const auto version = static_cast<IpVersion>(p[1] >> 4);
  // A new minor version keeps the layout; a new major version does not.
  if (p[0] >> 4 != 0) return Failure{MadError::kUnknownIpHeader};
  if (version != IpVersion::kIpv4 && version != IpVersion::kIpv6) return Failure{MadError::kUnknownIpHeader};
  return IpCmHeader{.version = version,
                    .source_port = load_be16(p + 2),
                    .source = parse_address(p + 4, version),
                    .destination = parse_address(p + 20, version)};
}

void emit_ip_cm_header(const IpCmHeader& header, MutableOctets to) {
  RRDMA_ASSERT(to.size() >= kIpCmHeaderOctets);
  std::uint8_t* p = to.data();
  p[0] = 0;
  p[1] = static_cast<std::uint8_t>(static_cast<std::uint8_t>(header.version) << 4);
  store_be16(p + 2, header.source_port);
  emit_address(header.source, header.version, p + 4);
  emit_address(header.destination, header.version, p + 20);
}

std::optional<IpService> ip_service_of(std::uint64_t service_id) {
  if (service_id >> 24 != 1) return std::nullopt;
  const IpService service{.port_space = static_cast<PortSpace>(service_id >> 16 & 0xff),
                          .port = static_cast<std::uint16_t>(service_id)};
  switch (service.port_space) {
    case PortSpace::kTcp:
    case PortSpace::kUdp:
    case PortSpace::kIb: return service;
  }
  return std::nullopt;
}

}  // namespace rrdma::wire
