// Management datagrams from arbitrary bytes: the MAD header, the messages of the connection manager and the
// IP-CM header. Accepted input can be emitted and parsed again with the same value.
#include <array>
#include <cstdint>

#include "base/assert.h"
#include "cost.h"
#include "wire/cm_ip_header.h"
#include "wire/cm_mad.h"

namespace rrdma::cm_mad_fuzz {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const rrdma::fuzz::Cost cost({.ms = 200, .octets = 64 << 10});
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
  if (size < kIpCmHeaderOctets) return 0;  // private data always has room for it
  if (const auto header = parse_ip_cm_header(input)) {
    std::array<std::uint8_t, kIpCmHeaderOctets> octets{};
    emit_ip_cm_header(*header, octets);
    const auto again = parse_ip_cm_header(octets);
    RRDMA_ASSERT(again.ok() && *again == *header);
  }
  return 0;
}

}  // namespace rrdma::cm_mad_fuzz
