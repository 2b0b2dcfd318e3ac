// Replays captured packets of the Linux kernel's rxe. Every packet parses, has a correct ICRC, and emits the
// same bytes again, for the frame and for the transport headers. The test also solves the ICRC for the IP
// identification, which a UDP socket would hide, and compares it with the one on the wire.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "wire/identification_solver.h"
#include "wire/pcap_reader.h"
#include "wire/pcapng_writer.h"
#include "wire/roce_packet.h"
#include "wire/source_port.h"
#include "wire/transport_packet.h"

namespace rrdma::wire::captures_test {

using File = std::vector<std::uint8_t>;

File contents_of(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return File(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
}

std::vector<std::filesystem::path> capture_files() {
  std::set<std::filesystem::path> paths;
  for (const char* folder : {RRDMA_OWN_CAPTURES, RRDMA_CAPTURES}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".pcap") paths.insert(std::filesystem::canonical(entry.path()));
    }
  }
  return {paths.begin(), paths.end()};
}

// Calls `visit` with each packet of each capture.
template <typename Visit>
void each_packet(Visit visit) {
  int packets = 0;
  for (const auto& path : capture_files()) {
    SCOPED_TRACE(path.filename().string());
    const File file = contents_of(path);
    auto reader = PcapReader::open(file);
    ASSERT_TRUE(reader.ok()) << describe(reader.error().fault);
    for (int number = 1;; ++number) {
      SCOPED_TRACE("packet " + std::to_string(number));
      const auto packet = reader->next();
      ASSERT_TRUE(packet.ok()) << describe(packet.error().fault);
      if (!packet->has_value()) break;
      visit(**packet);
      ++packets;
    }
  }
  EXPECT_GE(packets, 150) << "the captures of the tree alone hold more";
}

TEST(Captures, EveryPacketIsReadHasTheRightIcrcAndIsEmittedAsItWas) {
  each_packet([](const CapturedPacket& packet) {
    ASSERT_EQ(packet.octets.size(), packet.original_octets);
    const auto frame = parse_frame(packet.link, packet.octets);
    ASSERT_TRUE(frame.ok()) << describe(frame.error());
    EXPECT_TRUE(frame->icrc_right());
    EXPECT_NE(frame->udp_checksum, ChecksumVerdict::kWrong);

    File emitted(frame_octets(*frame));
    emit_frame(*frame, emitted);
    EXPECT_TRUE(std::equal(emitted.begin(), emitted.end(), packet.octets.begin(), packet.octets.end()));
  });
}

TEST(Captures, EveryTransportPacketIsReadAndEmittedAsItWas) {
  each_packet([](const CapturedPacket& packet) {
    const auto frame = parse_frame(packet.link, packet.octets);
    ASSERT_TRUE(frame.ok());
    TransportPacket transport;
    const TransportError error = parse_transport(frame->transport, transport);
    ASSERT_EQ(error, TransportError::kNone) << describe(error);
    File headers(kHeaderOctetsMax);
    headers.resize(emit_transport_headers(transport.headers, headers.data()));
    ASSERT_LE(headers.size(), frame->transport.size());
    EXPECT_TRUE(std::equal(headers.begin(), headers.end(), frame->transport.begin()));
  });
}

Octets transport_with_icrc(const RoceFrame& frame) {
  return {frame.transport.data(), frame.transport.size() + kIcrcOctets};
}

TEST(Captures, TheSeedOfAFlowGivesTheIcrcOfTheWire) {
  each_packet([](const CapturedPacket& packet) {
    const auto frame = parse_frame(packet.link, packet.octets);
    ASSERT_TRUE(frame.ok());
    if (const auto* ip = std::get_if<Ipv6Header>(&frame->network)) {
      const IcrcSeed seed = IcrcSeed::ipv6(ip->source, ip->destination, frame->udp.source);
      EXPECT_TRUE(icrc_matches(seed, transport_with_icrc(*frame)));
    } else if (const auto* v4 = std::get_if<Ipv4Header>(&frame->network)) {
      const IcrcSeed seed = IcrcSeed::ipv4(v4->source, v4->destination, frame->udp.source);
      EXPECT_TRUE(icrc_matches(seed, transport_with_icrc(*frame), v4->identification));
    }
  });
}

TEST(Captures, TheHiddenIdentificationIsSolvedAndAFlippedBitIsRefused) {
  IdentificationSolver solver;
  int solved = 0;
  each_packet([&](const CapturedPacket& packet) {
    const auto frame = parse_frame(packet.link, packet.octets);
    ASSERT_TRUE(frame.ok());
    const auto* ip = std::get_if<Ipv4Header>(&frame->network);
    if (ip == nullptr) return;
    const IcrcSeed seed = IcrcSeed::ipv4(ip->source, ip->destination, frame->udp.source);
    const Octets transport = transport_with_icrc(*frame);
    const SolvedIcrc found = solver.check(seed, transport);
    EXPECT_NE(found.verdict, IcrcVerdict::kWrong);
    EXPECT_EQ(found.identification, ip->identification);
    ++solved;
    File flipped(transport.begin(), transport.end());
    flipped[flipped.size() / 2] ^= 0x40;
    EXPECT_EQ(solver.check(seed, flipped).verdict, IcrcVerdict::kWrong);
  });
  EXPECT_GE(solved, 90);
}

TEST(Captures, MadsCarryTheSourcePortOfQp1) {
  int mads = 0;
  each_packet([&](const CapturedPacket& packet) {
    const auto frame = parse_frame(packet.link, packet.octets);
    ASSERT_TRUE(frame.ok());
    TransportPacket transport;
    ASSERT_EQ(parse_transport(frame->transport, transport), TransportError::kNone);
    if (transport.headers.bth.destination != kGeneralServicesQpn) return;
    EXPECT_EQ(frame->udp.source, source_port_of_datagrams(kGeneralServicesQpn));
    ++mads;
  });
  EXPECT_GE(mads, 10);
}

TEST(Captures, SurviveBeingWrittenAsPcapng) {
  for (const auto& path : capture_files()) {
    SCOPED_TRACE(path.filename().string());
    const File file = contents_of(path);
    File rewritten;
    PcapngWriter writer([&](Octets block) { rewritten.insert(rewritten.end(), block.begin(), block.end()); },
                        "test");
    const std::uint32_t interface = writer.add_interface(LinkType::kEthernet, path.stem().string());
    auto reader = PcapReader::open(file);
    ASSERT_TRUE(reader.ok());
    std::vector<CapturedPacket> packets;
    for (auto packet = reader->next(); packet.ok() && packet->has_value(); packet = reader->next()) {
      packets.push_back(**packet);
      writer.write(
          {.interface = interface, .time_ns = (*packet)->time_ns, .pieces = {&(*packet)->octets, 1}});
    }
    auto again = PcapReader::open(rewritten);
    ASSERT_TRUE(again.ok());
    for (const CapturedPacket& expected : packets) {
      const auto packet = again->next();
      ASSERT_TRUE(packet.ok() && packet->has_value());
      EXPECT_EQ((*packet)->time_ns, expected.time_ns);
      EXPECT_TRUE(std::equal((*packet)->octets.begin(), (*packet)->octets.end(), expected.octets.begin(),
                             expected.octets.end()));
    }
    EXPECT_EQ(again->interfaces().at(0).name, path.stem().string());
  }
}

}  // namespace rrdma::wire::captures_test
