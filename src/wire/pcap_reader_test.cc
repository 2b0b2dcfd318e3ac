// Reads capture files that these tests build byte by byte in both byte orders, and files of PcapngWriter.
#include "wire/pcap_reader.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "wire/pcapng_writer.h"

namespace rrdma::wire::pcap_reader_test {

using File = std::vector<std::uint8_t>;

// Writes numbers in the given byte order.
struct Builder {
  bool big = false;
  File file;

  Builder& u16(std::uint32_t value) { return number(value, 2); }
  Builder& u32(std::uint32_t value) { return number(value, 4); }
  Builder& text(std::string_view octets) {
    file.insert(file.end(), octets.begin(), octets.end());
    while (file.size() % 4 != 0) file.push_back(0);
    return *this;
  }
  Builder& number(std::uint32_t value, int octets) {
    for (int at = 0; at < octets; ++at) {
      file.push_back(static_cast<std::uint8_t>(value >> 8 * (big ? octets - 1 - at : at)));
    }
    return *this;
  }
  Builder& block(std::uint32_t type, const File& body) {
    const auto total = static_cast<std::uint32_t>(body.size() + 12);
    u32(type).u32(total);
    file.insert(file.end(), body.begin(), body.end());
    return u32(total);
  }
  [[nodiscard]] Builder body() const { return Builder{big, {}}; }

  Builder& pcap_header(std::uint32_t magic, std::uint32_t link) {
    return u32(magic).u16(2).u16(4).u32(0).u32(0).u32(65535).u32(link);
  }
  Builder& section() {
    return block(0x0a0d0d0a, body().u32(0x1a2b3c4d).u16(1).u16(0).u32(~0U).u32(~0U).file);
  }
  Builder& interface(std::uint32_t link) { return block(1, body().u16(link).u16(0).u32(0).file); }
};

std::string_view text_of(Octets octets) {
  return {reinterpret_cast<const char*>(octets.data()), octets.size()};
}

// All packets of a well-formed file.
std::vector<CapturedPacket> packets_of(const File& file) {
  std::vector<CapturedPacket> packets;
  auto reader = PcapReader::open(file);
  EXPECT_TRUE(reader.ok());
  if (!reader.ok()) return packets;
  for (;;) {
    auto packet = reader->next();
    EXPECT_TRUE(packet.ok());
    if (!packet.ok() || !packet->has_value()) return packets;
    packets.push_back(std::move(**packet));
  }
}

// The first error of a file.
CaptureError fault_of(Octets file) {
  auto reader = PcapReader::open(file);
  if (!reader.ok()) return reader.error();
  for (;;) {
    auto packet = reader->next();
    if (!packet.ok()) {
      const auto after = reader->next();
      EXPECT_TRUE(after.ok() && !after->has_value()) << "a fault ends the reading";
      return packet.error();
    }
    if (!packet->has_value()) break;
  }
  ADD_FAILURE() << "no fault";
  return {};
}

class BothByteOrders : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(PcapReader, BothByteOrders, testing::Bool());

TEST_P(BothByteOrders, ReadsPcap) {
  for (const bool nanoseconds : {false, true}) {
    Builder file{GetParam(), {}};
    file.pcap_header(nanoseconds ? 0xa1b23c4d : 0xa1b2c3d4, 1);
    file.u32(1000).u32(7).u32(4).u32(60).text("abcd");
    file.u32(1001).u32(8).u32(0).u32(0);
    const auto packets = packets_of(file.file);
    ASSERT_EQ(packets.size(), 2U);
    EXPECT_EQ(packets[0].time_ns, 1'000'000'000'000U + (nanoseconds ? 7 : 7000));
    EXPECT_EQ(text_of(packets[0].octets), "abcd");
    EXPECT_EQ(packets[0].original_octets, 60U);
    EXPECT_EQ(packets[0].link, LinkType::kEthernet);
    EXPECT_TRUE(packets[1].octets.empty());
  }
}

TEST_P(BothByteOrders, ReadsPcapng) {
  Builder file{GetParam(), {}};
  file.section();
  // if_name, if_tsresol 10^-9, an unknown option, end; then an interface with the default resolution.
  file.block(1, file.body()
                    .u16(1)
                    .u16(0)
                    .u32(0)
                    .u16(2)
                    .u16(5)
                    .text("rxe00")
                    .u16(9)
                    .u16(1)
                    .text("\x09")
                    .u16(99)
                    .u16(3)
                    .text("xyz")
                    .u16(0)
                    .u16(0)
                    .file);
  file.interface(101);
  file.block(0xbad, file.body().u32(1).file);
  file.block(6, file.body()
                    .u32(0)
                    .u32(0x16)
                    .u32(5)
                    .u32(3)
                    .u32(3)
                    .text("abc")
                    .u16(1)
                    .u16(2)
                    .text("hi")
                    .u16(1)
                    .u16(5)
                    .text("again")
                    .u16(0)
                    .u16(0)
                    .file);
  file.block(6, file.body().u32(1).u32(0).u32(5).u32(4).u32(9).text("wxyz").file);
  file.block(3, file.body().u32(5).text("simple").file);
  const auto packets = packets_of(file.file);
  ASSERT_EQ(packets.size(), 3U);
  EXPECT_EQ(packets[0].time_ns, (0x16ULL << 32) + 5);
  EXPECT_EQ(text_of(packets[0].octets), "abc");
  ASSERT_EQ(packets[0].comments.size(), 2U);
  EXPECT_EQ(packets[0].comments[0], "hi");
  EXPECT_EQ(packets[0].comments[1], "again");
  EXPECT_EQ(packets[1].time_ns, 5000U);
  EXPECT_EQ(packets[1].interface, 1U);
  EXPECT_EQ(packets[1].link, LinkType::kRawIp);
  EXPECT_EQ(packets[1].original_octets, 9U);
  EXPECT_EQ(text_of(packets[2].octets), "simpl");
  EXPECT_EQ(packets[2].time_ns, 0U);
}

TEST_P(BothByteOrders, UnderstandsEveryUnitOfTime) {
  struct Case {
    std::uint8_t resolution;
    std::uint64_t ticks;
    std::uint64_t time_ns;
  };
  const Case cases[] = {
      {0, 3, 3'000'000'000},
      {3, 5, 5'000'000},
      {6, 7, 7'000},
      {9, 11, 11},
      {12, 13'000, 13},
      {0x80 | 10, 1024, 1'000'000'000},
      {0x80, 2, 2'000'000'000},
      {0x80 | 30, 1 << 29, 500'000'000},
      {127, 5, 0},
      {28, ~0ULL, 1},
      {0xff, ~0ULL, 0},
  };
  for (const Case& c : cases) {
    Builder file{GetParam(), {}};
    file.section();
    const char resolution[] = {static_cast<char>(c.resolution)};
    file.block(1, file.body().u16(1).u16(0).u32(0).u16(9).u16(1).text({resolution, 1}).file);
    file.block(6, file.body()
                      .u32(0)
                      .u32(static_cast<std::uint32_t>(c.ticks >> 32))
                      .u32(static_cast<std::uint32_t>(c.ticks))
                      .u32(0)
                      .u32(0)
                      .file);
    const auto packets = packets_of(file.file);
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].time_ns, c.time_ns) << int{c.resolution};
  }
}

TEST_P(BothByteOrders, AddsTheTimeOffset) {
  Builder file{GetParam(), {}};
  file.section();
  auto body = file.body();
  body.u16(1).u16(0).u32(0).u16(14).u16(8);
  if (GetParam()) {
    body.u32(0).u32(100);
  } else {
    body.u32(100).u32(0);
  }
  file.block(1, body.file);
  file.block(6, file.body().u32(0).u32(0).u32(5).u32(0).u32(0).file);
  const auto packets = packets_of(file.file);
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].time_ns, 100'000'005'000U);
}

// Sections with different byte orders, each with its own interfaces.
TEST(PcapReader, ReadsSeveralSections) {
  Builder file{false, {}};
  file.section().interface(1).block(6, file.body().u32(0).u32(0).u32(1).u32(1).u32(1).text("a").file);
  file.big = true;
  file.section().interface(228).block(6, file.body().u32(0).u32(0).u32(2).u32(1).u32(1).text("b").file);
  const auto packets = packets_of(file.file);
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_EQ(packets[0].link, LinkType::kEthernet);
  EXPECT_EQ(packets[1].link, LinkType::kIpv4);
  file.section().block(6, file.body().u32(0).u32(0).u32(2).u32(1).u32(1).text("b").file);
  EXPECT_EQ(fault_of(file.file).fault, CaptureFault::kUnknownInterface);
}

TEST(PcapReader, TellsWhatIsWrongAndWhere) {
  EXPECT_EQ(fault_of({}).fault, CaptureFault::kEmpty);
  const File text = {'G', 'I', 'F', '8', '9', 'a'};
  EXPECT_EQ(fault_of(text).fault, CaptureFault::kForeign);
  EXPECT_EQ(fault_of(Octets(text).first(3)).fault, CaptureFault::kForeign);

  Builder old{false, {}};
  old.u32(0xa1b2c3d4).u16(1).u16(0).u32(0).u32(0).u32(0).u32(1);
  EXPECT_EQ(fault_of(old.file).fault, CaptureFault::kVersion);

  Builder pcap{false, {}};
  pcap.pcap_header(0xa1b2c3d4, 1).u32(0).u32(0).u32(4).u32(4).text("abcd");
  for (std::size_t size = 4; size < pcap.file.size(); ++size) {
    if (size == 24) continue;  // a file without packets is complete
    const CaptureError error = fault_of(Octets(pcap.file).first(size));
    EXPECT_EQ(error.fault, CaptureFault::kTruncated) << size;
    EXPECT_EQ(error.offset, size < 24 ? 0U : 24U);
  }

  Builder mark{false, {}};
  mark.block(0x0a0d0d0a, mark.body().u32(0x12345678).u16(1).u16(0).u32(0).u32(0).file);
  EXPECT_EQ(fault_of(mark.file).fault, CaptureFault::kByteOrder);
  Builder version{false, {}};
  version.block(0x0a0d0d0a, version.body().u32(0x1a2b3c4d).u16(2).u16(0).u32(0).u32(0).file);
  EXPECT_EQ(fault_of(version.file).fault, CaptureFault::kVersion);
  for (int fault = 0; fault <= static_cast<int>(CaptureFault::kTooManyInterfaces); ++fault) {
    EXPECT_NE(describe(static_cast<CaptureFault>(fault)), "unknown fault");
  }
}

TEST(PcapReader, RefusesMangledBlocks) {
  const auto started = [] {
    Builder file{false, {}};
    file.section().interface(1);
    return file;
  };
  const std::size_t start = started().file.size();
  auto file = started();
  file.u32(7).u32(13).u32(0).u32(13);
  EXPECT_EQ(fault_of(file.file).fault, CaptureFault::kBlockLength) << "not a multiple of four";
  file = started();
  file.u32(7).u32(8).u32(8);
  EXPECT_EQ(fault_of(file.file).fault, CaptureFault::kBlockLength) << "smaller than its frame";
  file = started();
  file.u32(7).u32(16).u32(0).u32(20);
  EXPECT_EQ(fault_of(file.file).fault, CaptureFault::kBlockLength) << "two lengths";
  EXPECT_EQ(fault_of(file.file).offset, start);
  file = started();
  file.u32(7).u32(0xfffffffc).u32(0);
  EXPECT_EQ(fault_of(file.file).fault, CaptureFault::kTruncated);
  file = started();
  file.block(6, file.body().u32(0).u32(0).u32(0).u32(5).u32(5).text("abcd").file);
  EXPECT_EQ(fault_of(file.file).fault, CaptureFault::kBlockLength) << "captured beyond the block";
  file = started();
  file.block(6, file.body().u32(0).u32(0).u32(0).u32(0).u32(0).u16(1).u16(9).text("abcd").file);
  EXPECT_EQ(fault_of(file.file).fault, CaptureFault::kOption);
  file = started();
  file.block(3, file.body().u32(5).text("abcd").file);
  EXPECT_EQ(fault_of(file.file).fault, CaptureFault::kBlockLength);
  file = started();
  for (std::size_t count = 0; count < PcapReader::kInterfacesMax; ++count) file.interface(1);
  EXPECT_EQ(fault_of(file.file).fault, CaptureFault::kTooManyInterfaces);
}

TEST(PcapngWriter, WritesWhatTheReaderReads) {
  Prng prng(1);
  File file;
  int blocks = 0;
  PcapngWriter writer(
      [&](Octets block) {
        EXPECT_EQ(block.size() % 4, 0U);
        file.insert(file.end(), block.begin(), block.end());
        ++blocks;
      },
      "rrdma");
  EXPECT_EQ(writer.add_interface(LinkType::kEthernet, "eth0"), 0U);
  EXPECT_EQ(writer.add_interface(LinkType::kRawIp, "shm"), 1U);
  struct Written {
    std::uint32_t interface;
    std::uint64_t time_ns;
    File octets;
    std::string comment;
    PacketDirection direction;
  };
  std::vector<Written> written;
  for (int round = 0; round < 200; ++round) {
    Written packet{static_cast<std::uint32_t>(prng.below(2)),
                   prng.next(),
                   File(prng.below(300)),
                   {},
                   static_cast<PacketDirection>(prng.below(3))};
    for (auto& octet : packet.octets) octet = static_cast<std::uint8_t>(prng.next());
    if (prng.below(2) == 0) packet.comment = std::string(prng.between(1, 20), 'x');
    const std::size_t cut = prng.between(0, packet.octets.size());
    const Octets pieces[] = {Octets(packet.octets).first(cut), Octets(packet.octets).subspan(cut)};
    writer.write({.interface = packet.interface,
                  .time_ns = packet.time_ns,
                  .pieces = pieces,
                  .comment = packet.comment,
                  .direction = packet.direction});
    written.push_back(packet);
  }
  EXPECT_EQ(blocks, 203);

  auto reader = PcapReader::open(file);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->format(), PcapReader::Format::kPcapng);
  for (const Written& expected : written) {
    const auto packet = reader->next();
    ASSERT_TRUE(packet.ok() && packet->has_value());
    const CapturedPacket& read = **packet;
    EXPECT_EQ(read.interface, expected.interface);
    EXPECT_EQ(read.time_ns, expected.time_ns);
    EXPECT_EQ(File(read.octets.begin(), read.octets.end()), expected.octets);
    EXPECT_EQ(read.original_octets, expected.octets.size());
    EXPECT_EQ(read.direction, expected.direction);
    EXPECT_EQ(read.comments.size(), expected.comment.empty() ? 0U : 1U);
    if (!read.comments.empty()) {
      EXPECT_EQ(read.comments.front(), expected.comment);
    }
  }
  EXPECT_EQ(reader->interfaces().at(0).name, "eth0");
  EXPECT_EQ(reader->interfaces().at(1).name, "shm");
  const auto end = reader->next();
  EXPECT_TRUE(end.ok() && !end->has_value());
}

TEST(PcapngWriter, CutsWhatReadersWouldRefuse) {
  File file;
  PcapngWriter writer([&](Octets block) { file.insert(file.end(), block.begin(), block.end()); }, {});
  writer.add_interface(LinkType::kEthernet, {});
  const File large(PcapngWriter::kPacketOctetsMax - 10, 1);
  const File more(100, 2);
  const Octets pieces[] = {large, more, more};
  const std::string comment(70000, 'c');
  writer.write({.interface = 0, .time_ns = 1, .pieces = pieces, .comment = comment});
  const auto packets = packets_of(file);
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].octets.size(), PcapngWriter::kPacketOctetsMax);
  EXPECT_EQ(packets[0].octets.back(), 2);
  EXPECT_EQ(packets[0].original_octets, large.size() + 200);
  EXPECT_EQ(packets[0].comments.at(0).size(), 65535U);
}

}  // namespace rrdma::wire::pcap_reader_test
