// Capture files from arbitrary bytes. pcap and pcapng are read to their end or first fault. The results lie
// within the file, and the packets can be written as pcapng and read back.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/assert.h"
#include "cost.h"
#include "wire/pcap_reader.h"
#include "wire/pcapng_writer.h"

namespace rrdma::capture_fuzz {

using namespace rrdma::wire;

// REQUIRES: no fault in the file.
std::vector<CapturedPacket> packets_of(Octets file) {
  auto reader = PcapReader::open(file);
  RRDMA_ASSERT(reader.ok());
  std::vector<CapturedPacket> packets;
  for (;;) {
    auto packet = reader->next();
    RRDMA_ASSERT(packet.ok());
    if (!packet->has_value()) return packets;
    packets.push_back(std::move(**packet));
  }
}

void check_rewritten(const std::vector<CapturedPacket>& packets) {
  std::vector<std::uint8_t> file;
  PcapngWriter writer([&file](Octets block) { file.insert(file.end(), block.begin(), block.end()); }, "fuzz");
  for (const CapturedPacket& packet : packets) {
    const std::uint32_t interface = writer.add_interface(packet.link, "");
    const std::string_view comment = packet.comments.empty() ? std::string_view() : packet.comments.front();
    writer.write({.interface = interface,
                  .time_ns = packet.time_ns,
                  .pieces = {&packet.octets, 1},
                  .comment = comment});
  }
  const auto again = packets_of(file);
  RRDMA_ASSERT(again.size() == packets.size());
  for (std::size_t at = 0; at < packets.size(); ++at) {
    RRDMA_ASSERT(again[at].link == packets[at].link && again[at].time_ns == packets[at].time_ns);
    RRDMA_ASSERT(std::equal(again[at].octets.begin(), again[at].octets.end(), packets[at].octets.begin(),
                            packets[at].octets.end()));
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const rrdma::fuzz::Cost cost({.ms = 200, .octets = 64 << 10});
  const Octets file(data, size);
  auto reader = PcapReader::open(file);
  if (!reader) {
    RRDMA_ASSERT(!describe(reader.error().fault).empty() && reader.error().offset <= size);
    return 0;
  }
  std::vector<CapturedPacket> packets;
  for (;;) {
    auto packet = reader->next();
    if (!packet) {
      RRDMA_ASSERT(packet.error().offset <= size);
      break;
    }
    if (!packet->has_value()) break;
    const CapturedPacket& captured = **packet;
    RRDMA_ASSERT(captured.interface < reader->interfaces().size());
    if (!captured.octets.empty()) {
      RRDMA_ASSERT(captured.octets.data() >= data &&
                   captured.octets.data() + captured.octets.size() <= data + size);
    }
    // The writer uses an interface for each packet, and a section has a limit of interfaces.
    if (packets.size() < PcapReader::kInterfacesMax) packets.push_back(captured);
  }
  check_rewritten(packets);
  return 0;
}

}  // namespace rrdma::capture_fuzz
