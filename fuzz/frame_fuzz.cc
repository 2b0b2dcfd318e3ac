// Whole frames from any octets, as Ethernet and as raw IP. What is accepted is emitted with lengths,
// checksums and ICRC that parse finds right; and where they were right before, with the same octets.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "wire/roce_packet.h"

namespace {

using namespace rrdma;
using namespace rrdma::wire;

void check(LinkType link, Octets input) {
  const auto frame = parse_frame(link, input);
  if (!frame) {
    RRDMA_ASSERT(!describe(frame.error()).empty());
    return;
  }
  std::vector<std::uint8_t> octets(frame_octets(*frame));
  RRDMA_ASSERT(emit_frame(*frame, octets) == input.size());
  const auto again = parse_frame(link, octets);
  RRDMA_ASSERT(again.ok() && again->icrc_right());
  RRDMA_ASSERT(again->udp_checksum != ChecksumVerdict::kWrong);
  RRDMA_ASSERT(again->ethernet == frame->ethernet && again->network == frame->network);
  RRDMA_ASSERT(std::equal(again->transport.begin(), again->transport.end(), frame->transport.begin(),
                          frame->transport.end()));
  const std::size_t link_octets = frame->ethernet ? frame->ethernet->octets() : 0;
  // 0xffff and 0 are the same IPv4 checksum; emit writes the latter.
  const bool other_zero =
      frame->network_kind() == Network::kIpv4 && load_be16(input.data() + link_octets + 10) == 0xffff;
  if (frame->icrc_right() && frame->udp_checksum != ChecksumVerdict::kWrong && !other_zero) {
    RRDMA_ASSERT(std::equal(octets.begin(), octets.end(), input.begin(), input.end()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Octets input(data, size);
  check(LinkType::kEthernet, input);
  check(LinkType::kRawIp, input);
  check(LinkType::kIpv4, input);
  check(LinkType::kIpv6, input);
  return 0;
}
