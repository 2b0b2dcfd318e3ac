// Whole frames from arbitrary bytes, as Ethernet and as raw IP. Accepted frames are emitted with valid
// lengths, checksums and ICRC; if those were valid before, with the same bytes. The dissection of any frame,
// valid or not, has a reason and the fields that could be read.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "cost.h"
#include "dissection/packet_dissection.h"
#include "dissection/packet_fields.h"
#include "dissection/printer.h"
#include "wire/roce_packet.h"

namespace rrdma::frame_fuzz {

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

// Dissects the frame as rrdma decode and rrdma inspect do, complete and truncated.
void tell(LinkType link, Octets input) {
  for (const std::size_t cut : {std::size_t{0}, std::size_t{100}}) {
    const Dissection packet = dissect(
        {.link = link, .octets = input, .original_octets = static_cast<std::uint32_t>(input.size() + cut)});
    RRDMA_ASSERT((packet.verdict == PacketVerdict::kGood) == packet.reason.empty());
    const Field fields = packet_fields(packet);
    RRDMA_ASSERT(fields.children.empty() == (!packet.ethernet && !packet.frame));
    RRDMA_ASSERT(fields.children.empty() == fields_tree(fields).empty());
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const rrdma::fuzz::Cost cost({.ms = 200, .octets = 64 << 10});
  const Octets input(data, size);
  check(LinkType::kEthernet, input);
  check(LinkType::kRawIp, input);
  check(LinkType::kIpv4, input);
  check(LinkType::kIpv6, input);
  tell(LinkType::kEthernet, input);
  tell(LinkType::kRawIp, input);
  for (const int cooked : {113, 276}) tell(static_cast<LinkType>(cooked), input);  // tcpdump -i any
  return 0;
}

}  // namespace rrdma::frame_fuzz
