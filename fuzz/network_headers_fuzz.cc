// Ethernet, IPv4, IPv6, GRH and UDP headers from arbitrary bytes. Accepted input is emitted unchanged.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "cost.h"
#include "wire/ethernet.h"
#include "wire/grh.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/udp.h"

namespace rrdma::network_headers_fuzz {

using namespace rrdma::wire;

template <typename Header>
bool emits_as_it_was(const Header& header, std::size_t (*emit)(const Header&, MutableOctets), Octets input) {
  std::vector<std::uint8_t> octets(128);
  const std::size_t written = emit(header, octets);
  return std::equal(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(written), input.begin());
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const rrdma::fuzz::Cost cost({.ms = 200, .octets = 64 << 10});
  const Octets input(data, size);
  if (const auto header = parse_ethernet(input)) {
    RRDMA_ASSERT(emits_as_it_was(*header, emit_ethernet, input));
  }
  if (const auto header = parse_ipv4(input)) {
    // 0xffff and 0 are the same checksum in one's complement; emit writes the latter.
    RRDMA_ASSERT(load_be16(data + 10) == 0xffff || emits_as_it_was(*header, emit_ipv4, input));
  }
  if (const auto header = parse_ipv6(input)) RRDMA_ASSERT(emits_as_it_was(*header, emit_ipv6, input));
  if (const auto header = parse_grh(input)) RRDMA_ASSERT(emits_as_it_was(*header, emit_grh, input));
  if (const auto header = parse_udp(input)) RRDMA_ASSERT(emits_as_it_was(*header, emit_udp, input));
  return 0;
}

}  // namespace rrdma::network_headers_fuzz
