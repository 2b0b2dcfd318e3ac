// Management datagrams from any octets: MAD header, the connection manager's messages and the IP-CM
// header. What is accepted survives being emitted and read again, as the same value.
#include <array>
#include <cstdint>

#include "base/assert.h"
#include "wire/cm_ip_header.h"
#include "wire/cm_mad.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rrdma;
  using namespace rrdma::wire;
  const Octets input(data, size);
  if (const auto header = parse_mad_header(input)) {
    MadBuffer octets{};
    emit_mad_header(*header, octets);
    const auto again = parse_mad_header(octets);
    RRDMA_ASSERT(again.ok() && *again == *header);
  }
  if (const auto mad = parse_cm_mad(input)) {
    const MadBuffer octets = emit_cm_mad(*mad);
    const auto again = parse_cm_mad(octets);
    RRDMA_ASSERT(again.ok() && *again == *mad);
    RRDMA_ASSERT(emit_cm_mad(*again) == octets);
  } else {
    RRDMA_ASSERT(!describe(mad.error()).empty());
  }
  if (size < kIpCmHeaderOctets) return 0;  // private data always has the room
  if (const auto header = parse_ip_cm_header(input)) {
    std::array<std::uint8_t, kIpCmHeaderOctets> octets{};
    emit_ip_cm_header(*header, octets);
    const auto again = parse_ip_cm_header(octets);
    RRDMA_ASSERT(again.ok() && *again == *header);
  }
  return 0;
}
