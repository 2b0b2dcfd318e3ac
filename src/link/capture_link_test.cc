#include "link/capture_link.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "link/fault_gate.h"
#include "link/fault_link.h"
#include "link/test_frames.h"
#include "wire/pcap_reader.h"

namespace rrdma::link::capture_link_test {

using test::RecordingLink;

class MemorySink final : public CaptureSink {
 public:
  void append(Octets block) override { file.insert(file.end(), block.begin(), block.end()); }
  void write_out() override { ++writes; }
  std::uint64_t take_lost() override { return std::exchange(lost, 0); }
  std::vector<std::uint8_t> file;
  std::uint64_t lost = 0;
  int writes = 0;
};

objects::Path path_of(bool ipv4) {
  objects::Path path;
  if (ipv4) {
    path.local = wire::gid_of_ipv4({10, 0, 0, 1});
    path.remote = wire::gid_of_ipv4({10, 0, 0, 2});
  } else {
    path.local.octets = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    path.remote.octets = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  }
  path.source_port = 0xd00d;
  path.traffic_class = 0x20;
  return path;
}

std::size_t payload_of(wire::Opcode opcode) {
  switch (wire::shape_of(opcode).payload) {
    case wire::PayloadRule::kNone: return 0;
    case wire::PayloadRule::kFull: return 1024;
    case wire::PayloadRule::kOneToFull: return 101;
    case wire::PayloadRule::kUpToFull: return 66;
    case wire::PayloadRule::kEight: return 8;
    case wire::PayloadRule::kSixteen: return 16;
  }
  return 0;
}

wire::TransportHeaders headers_of(wire::Opcode opcode, std::uint32_t psn) {
  wire::TransportHeaders headers;
  headers.bth.opcode = opcode;
  headers.bth.destination = wire::Qpn(0x010042);
  headers.bth.psn = wire::Psn(psn);
  headers.bth.pad = wire::pad_for(payload_of(opcode));
  return headers;
}

std::vector<wire::Opcode> all_opcodes() {
  std::vector<wire::Opcode> opcodes;
  for (unsigned i = 0; i < 256; ++i) {
    const wire::Opcode opcode(static_cast<std::uint8_t>(i));
    if (wire::shape_of(opcode).known()) opcodes.push_back(opcode);
  }
  return opcodes;
}

// Sends and receives one packet of every opcode, over both families. Returns their number.
std::size_t exchange_every_opcode(CaptureLink& link, RecordingLink& inner) {
  static const std::vector<std::uint8_t> memory(4096, 0xa5);
  std::size_t count = 0;
  Instant now{};
  for (const bool ipv4 : {true, false}) {
    const objects::Path path = path_of(ipv4);
    for (const wire::Opcode opcode : all_opcodes()) {
      now = now + microseconds(1);
      const auto headers = headers_of(opcode, static_cast<std::uint32_t>(count));
      objects::Frame* frame = link.reserve(path);
      frame->header_octets =
          static_cast<std::uint8_t>(wire::emit_transport_headers(headers, frame->header.data()));
      frame->pad = headers.bth.pad;
      if (payload_of(opcode) != 0) frame->add_span(memory.data(), payload_of(opcode));
      link.commit(*frame);
      link.flush(now);
      inner.arriving.push_back(
          {{headers, Octets(memory).first(payload_of(opcode))}, {path.remote, path.local}});
      inner.arriving.back().second.source_port = 0xc0de;
      test::Collector collector;
      link.poll(collector, now, 16);
      EXPECT_EQ(collector.packets.size(), 1u);
      count += 2;
    }
  }
  return count;
}

// Reads a capture back; every packet must be complete and correct.
std::vector<wire::CapturedPacket> check_capture(Octets file) {
  std::vector<wire::CapturedPacket> packets;
  auto reader = wire::PcapReader::open(file);
  EXPECT_TRUE(reader.ok());
  for (;;) {
    auto next = reader->next();
    EXPECT_TRUE(next.ok());
    if (!next.ok() || !*next) return packets;
    const auto frame = wire::parse_frame((*next)->link, (*next)->octets);
    EXPECT_TRUE(frame.ok());
    EXPECT_TRUE(frame.ok() && frame->icrc_right());
    packets.push_back(**next);
  }
}

TEST(CaptureLink, WritesWhatIsSentAndReceivedWithRightIcrcs) {
  RecordingLink inner;
  MemorySink sink;
  std::size_t count = 0;
  {
    CaptureLink link(inner, sink, {.epoch_offset_ns = 1'700'000'000'000'000'000});
    count = exchange_every_opcode(link, inner);
  }
  const auto packets = check_capture(sink.file);
  ASSERT_EQ(packets.size(), count);
  EXPECT_EQ(packets[0].time_ns, 1'700'000'000'000'001'000u);
  const auto out = wire::parse_frame(packets[0].octets);
  const auto in = wire::parse_frame(packets[1].octets);
  ASSERT_TRUE(out.ok() && in.ok());
  EXPECT_EQ(packets[0].direction, wire::PacketDirection::kOutbound);
  EXPECT_EQ(packets[1].direction, wire::PacketDirection::kInbound);
  EXPECT_EQ(out->udp.source, 0xd00d);
  EXPECT_EQ(in->udp.source, 0xc0de);
  EXPECT_EQ(std::get<wire::Ipv4Header>(out->network).destination,
            std::get<wire::Ipv4Header>(in->network).source);
  EXPECT_EQ(std::get<wire::Ipv4Header>(out->network).tos, 0x20);
}

TEST(CaptureLink, TimeIsThatOfTheFlush) {
  RecordingLink inner;
  MemorySink sink;
  CaptureLink link(inner, sink, {});
  const objects::Path path = path_of(true);
  link.flush({5'000});
  ASSERT_TRUE(test::send(link, path, {.psn = 1}, nullptr));
  link.flush({9'000'000});
  const auto packets = check_capture(sink.file);
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].time_ns, 9'000'000u);
}

TEST(CaptureLink, APacketOfABurstHasItsOwnTime) {
  static std::int64_t ticks;
  ticks = 1'000;
  RecordingLink inner;
  MemorySink sink;
  CaptureLink link(inner, sink, {.clock = [] { return Instant{ticks += 100}; }});
  const objects::Path path = path_of(true);
  for (std::uint32_t psn = 1; psn <= 3; ++psn) ASSERT_TRUE(test::send(link, path, {.psn = psn}, nullptr));
  link.flush({1'000});
  const auto packets = check_capture(sink.file);
  ASSERT_EQ(packets.size(), 3u);
  EXPECT_EQ(packets[0].time_ns, 1'100u);
  EXPECT_EQ(packets[1].time_ns, 1'200u);
  EXPECT_EQ(packets[2].time_ns, 1'300u);
}

// Number of packets whose comment names this fault.
std::uint64_t marks(Octets file, std::string_view fault) {
  auto reader = wire::PcapReader::open(file);
  EXPECT_TRUE(reader.ok());
  std::uint64_t count = 0;
  for (auto next = reader->next(); next.ok() && *next; next = reader->next()) {
    for (const std::string_view comment : (*next)->comments)
      count += comment.find(fault) != std::string_view::npos ? 1u : 0u;
  }
  return count;
}

TEST(CaptureLink, MarksEveryPacketThatAFaultInjected) {
  constexpr std::uint32_t kFrames = 4000;
  const char* const specs[] = {"drop=5%,dup=3%,reorder=2%,corrupt=4%,ecn=6%,seed=3",
                               "delay=50us+-20us,drop=3%,dup=3%,reorder=2%,seed=3"};
  for (const char* const spec : specs) {
    RecordingLink inner;
    MemorySink sink;
    FaultCounters tally;
    {
      CaptureLink capture(inner, sink, {});
      FaultLink faults(capture, *parse_fault_spec(spec), 2);
      const objects::Path path = path_of(true);
      const std::uint8_t octets[64] = {};
      Instant now{};
      for (std::uint32_t i = 0; i < kFrames; ++i) {
        ASSERT_TRUE(test::send(faults, path, {.psn = i, .octets = 64}, octets));
        if (i % 8 == 7) faults.flush(now = now + microseconds(10));
      }
      while (faults.next_deadline() < kNever) faults.flush(faults.next_deadline());
      tally = faults.tally();
    }
    EXPECT_GT(tally.dropped, 50u);
    EXPECT_EQ(marks(sink.file, "drop"), tally.dropped) << spec;
    EXPECT_EQ(marks(sink.file, "duplicate"), tally.duplicated) << spec;
    EXPECT_EQ(marks(sink.file, "reorder"), tally.reordered) << spec;
    EXPECT_EQ(marks(sink.file, "corrupt"), tally.corrupted) << spec;
    EXPECT_EQ(marks(sink.file, "ecn"), tally.marked) << spec;
    EXPECT_EQ(marks(sink.file, "delay"), tally.delayed) << spec;
    EXPECT_EQ(marks(sink.file, "fault: "), marks(sink.file, "(rule 2)")) << spec;
    EXPECT_EQ(inner.sent.size(), kFrames - tally.dropped + tally.duplicated) << spec;
  }
}

TEST(CaptureLink, MarksPayloadThatCameFromADevice) {
  RecordingLink inner;
  MemorySink sink;
  {
    CaptureLink capture(inner, sink, {});
    const objects::Path path = path_of(true);
    const std::uint8_t octets[64] = {};
    for (const bool staged : {true, false, true})
      ASSERT_TRUE(test::send(capture, path, {.psn = 1, .octets = 64, .staged = staged}, octets));
    capture.flush({});
  }
  EXPECT_EQ(check_capture(sink.file).size(), 3u);
  EXPECT_EQ(marks(sink.file, wire::kDeviceMemoryComment), 2u);
}

TEST(CaptureLink, WhatABarrierKeepsIsInItWithAMark) {
  RecordingLink inner;
  MemorySink sink;
  test::Collector collector;
  {
    CaptureLink capture(inner, sink, {});
    const objects::Path path = path_of(true);
    FaultGate gate(capture, {{.number = 7, .remotes = {path.remote}, .blocked = true}});
    ASSERT_TRUE(test::send(gate, path, {.psn = 1}, nullptr));
    gate.flush({});
    const auto headers =
        headers_of(wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kSendOnly), 5);
    for (const wire::Gid& from : {path.remote, wire::gid_of_ipv4({10, 0, 0, 3})})
      inner.arriving.push_back({{headers, {}}, {from, path.local}});
    gate.poll(collector, {}, 8);
  }
  EXPECT_EQ(collector.packets.size(), 1u);
  EXPECT_TRUE(inner.sent.empty());
  EXPECT_EQ(check_capture(sink.file).size(), 3u);
  EXPECT_EQ(marks(sink.file, "fault: block (rule 7)"), 2u);
}

TEST(CaptureLink, WhatIsDroppedWhereItArrivesSaysSo) {
  RecordingLink inner;
  MemorySink sink;
  test::Collector collector;
  {
    CaptureLink capture(inner, sink, {});
    FaultScope lossy{.number = 4, .outbound = false};
    lossy.spec.drop_ppm = 300'000;
    FaultGate gate(capture, {lossy});
    const objects::Path path = path_of(true);
    const auto headers =
        headers_of(wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kSendOnly), 5);
    for (int i = 0; i < 100; ++i) inner.arriving.push_back({{headers, {}}, {path.remote, path.local}});
    gate.poll(collector, {}, 128);
  }
  EXPECT_LT(collector.packets.size(), 100u);
  EXPECT_EQ(marks(sink.file, "fault: drop (rule 4)"), 100 - collector.packets.size());
}

TEST(CaptureLink, WhatIsNoPacketStandsBetweenThem) {
  RecordingLink inner;
  MemorySink sink;
  CaptureLink link(inner, sink, {.epoch_offset_ns = 1'700'000'000'000'000'000});
  const objects::Path path = path_of(true);
  ASSERT_TRUE(test::send(link, path, {.psn = 1}, nullptr));
  link.note({5'000}, "fault 3: on purpose (port=down): the\nport is down.");
  EXPECT_EQ(sink.writes, 1);
  ASSERT_TRUE(test::send(link, path, {.psn = 2}, nullptr));
  link.flush({9'000});
  auto reader = wire::PcapReader::open(sink.file);
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE(*reader->next());
  EXPECT_TRUE(reader->take_notes().empty());
  ASSERT_TRUE(*reader->next());
  const auto notes = reader->take_notes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].text, "fault 3: on purpose (port=down): the port is down.");
  EXPECT_EQ(notes[0].time_ns, 1'700'000'000'000'005'000u);
}

TEST(CaptureLink, MethodsAreNamedBeforeTheNextPacket) {
  static NameList methods;
  methods.add("store.Store/Get");
  RecordingLink inner;
  MemorySink sink;
  CaptureLink link(inner, sink, {.methods = &methods});
  const objects::Path path = path_of(true);
  ASSERT_TRUE(test::send(link, path, {.psn = 1}, nullptr));
  link.flush({5'000});
  methods.add("store.Store/Put");
  ASSERT_TRUE(test::send(link, path, {.psn = 2}, nullptr));
  ASSERT_TRUE(test::send(link, path, {.psn = 3}, nullptr));
  link.flush({9'000});
  auto reader = wire::PcapReader::open(sink.file);
  ASSERT_TRUE(reader.ok());
  for (const std::string_view name : {"store.Store/Get", "store.Store/Put"}) {
    ASSERT_TRUE(*reader->next());
    const auto notes = reader->take_notes();
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(wire::method_named_in(notes[0]), name);
  }
  ASSERT_TRUE(*reader->next());
  EXPECT_TRUE(reader->take_notes().empty());
}

TEST(CaptureLink, WhatIsCorruptedOnPurposeSaysSo) {
  RecordingLink inner;
  MemorySink sink;
  CaptureLink link(inner, sink, {});
  const objects::Path path = path_of(true);
  ASSERT_TRUE(test::send(link, path, {.psn = 1, .corrupt_bit = 8 * 12 - 1, .faults = objects::kFaultCorrupt},
                         nullptr));
  link.flush({});
  auto reader = wire::PcapReader::open(sink.file);
  ASSERT_TRUE(reader.ok());
  auto next = reader->next();
  ASSERT_TRUE(next.ok() && *next);
  ASSERT_EQ((*next)->comments.size(), 1u);
  EXPECT_EQ((*next)->comments[0], "fault: corrupt");
  const auto frame = wire::parse_frame((*next)->octets);
  ASSERT_TRUE(frame.ok());
  EXPECT_FALSE(frame->icrc_right());
  EXPECT_EQ(frame->transport[11], 0) << "the last bit of the PSN 1";
}

TEST(CaptureLink, IsWrittenOutBeforeLong) {
  RecordingLink inner;
  MemorySink sink;
  CaptureLink link(inner, sink, {});
  EXPECT_EQ(link.next_deadline(), kNever);
  const objects::Path path = path_of(true);
  ASSERT_TRUE(test::send(link, path, {.psn = 1}, nullptr));
  link.flush({1'000});
  EXPECT_EQ(sink.writes, 0);
  ASSERT_NE(link.next_deadline(), kNever);
  link.flush(link.next_deadline());
  EXPECT_EQ(sink.writes, 1);
  EXPECT_EQ(link.next_deadline(), kNever);
}

TEST(CaptureLink, KeepsTheBeginningOfPacketsAndTheirTrueLength) {
  RecordingLink inner;
  MemorySink sink;
  {
    CaptureLink link(inner, sink, {.snap_octets = 60});
    (void)exchange_every_opcode(link, inner);
  }
  auto reader = wire::PcapReader::open(sink.file);
  ASSERT_TRUE(reader.ok());
  std::size_t cut = 0;
  for (auto next = reader->next(); next.ok() && *next; next = reader->next()) {
    EXPECT_LE((*next)->octets.size(), 60u);
    cut += (*next)->original_octets > 60 ? 1 : 0;
  }
  EXPECT_GT(cut, 10u);
}

TEST(CaptureLink, TellsAtItsEndWhatWasLeftOut) {
  RecordingLink inner;
  MemorySink sink;
  {
    CaptureLink link(inner, sink, {});
    sink.lost = 41;
  }
  auto reader = wire::PcapReader::open(sink.file);
  ASSERT_TRUE(reader.ok());
  const auto next = reader->next();
  EXPECT_TRUE(next.ok() && !*next);
  EXPECT_EQ(reader->left_out(), 41u);
}

std::vector<std::uint8_t> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CaptureFileTest : public testing::Test {
 protected:
  CaptureFileTest() : path_(testing::TempDir() + "rrdma_capture_" + std::to_string(getpid()) + ".pcapng") {}
  ~CaptureFileTest() override { std::remove(path_.c_str()); }
  const std::string path_;
};

TEST_F(CaptureFileTest, ManyWritersShareAFile) {
  std::size_t count = 0;
  {
    RecordingLink inner_a;
    RecordingLink inner_b;
    auto a = CaptureFile::open(path_);
    auto b = CaptureFile::open(path_);
    ASSERT_TRUE(a.ok() && b.ok());
    CaptureLink link_a(inner_a, **a, {});
    CaptureLink link_b(inner_b, **b, {});
    for (int round = 0; round < 5; ++round) {
      count += exchange_every_opcode(link_a, inner_a);
      (*a)->write_out();
      count += exchange_every_opcode(link_b, inner_b);
    }
  }
  EXPECT_EQ(check_capture(read_file(path_)).size(), count);
}

// It holds payload, RKeys and PSNs.
TEST_F(CaptureFileTest, BelongsToItsUserAlone) {
  const mode_t before = ::umask(0);
  ASSERT_TRUE(CaptureFile::open(path_).ok());
  (void)::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(CaptureFileTest, IsBounded) {
  RecordingLink inner;
  auto file = CaptureFile::open(path_, {}, 4096);
  ASSERT_TRUE(file.ok());
  {
    CaptureLink link(inner, **file, {});
    (void)exchange_every_opcode(link, inner);
  }
  EXPECT_GT((*file)->lost(), 0u);
  const auto octets = read_file(path_);
  EXPECT_LE(octets.size(), 4096u);
  EXPECT_GT(check_capture(octets).size(), 5u);
}

TEST_F(CaptureFileTest, EndsAfterSoManyPackets) {
  RecordingLink inner;
  auto file = CaptureFile::open(path_, {.packets_max = 7});
  ASSERT_TRUE(file.ok());
  {
    CaptureLink link(inner, **file, {});
    (void)exchange_every_opcode(link, inner);
  }
  EXPECT_TRUE((*file)->complete());
  EXPECT_EQ((*file)->lost(), 0u) << "what nobody wanted is not lost";
  EXPECT_EQ(check_capture(read_file(path_)).size(), 7u);
}

TEST_F(CaptureFileTest, GoesRoundInFilesOfASize) {
  RecordingLink inner;
  constexpr std::uint64_t kSize = 20'000;
  auto file = CaptureFile::open(path_, {.file_octets = kSize, .files_max = 3});
  auto other = CaptureFile::open(path_, {.file_octets = kSize});  // a second writer: files of its own
  ASSERT_TRUE(file.ok() && other.ok());
  {
    CaptureLink link(inner, **file, {});
    for (int round = 0; round < 20; ++round) (void)exchange_every_opcode(link, inner);
  }
  EXPECT_GT((*file)->files(), 4u);
  EXPECT_EQ((*file)->lost(), 0u);
  for (const std::string& name : {path_, path_ + ".1", path_ + ".2"}) {
    const auto octets = read_file(name);
    EXPECT_LE(octets.size(), kSize) << name;
    EXPECT_GT(check_capture(octets).size(), 5u) << name;
    if (name != path_) std::remove(name.c_str());
  }
  EXPECT_TRUE(read_file(path_ + ".3").empty());
  const std::string others = path_ + "." + std::to_string(getpid());
  EXPECT_EQ(std::remove(others.c_str()), 0);
}

TEST(CaptureLimits, AreReadBack) {
  const CaptureLimits limits{
      .snap_octets = 96, .packets_max = 1000, .file_octets = 5'000'000, .files_max = 4};
  const auto read = parse_capture_limits(emit_capture_limits(limits));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, limits);
  EXPECT_EQ(emit_capture_limits({}), "");
  EXPECT_FALSE(parse_capture_limits("")->any());
  for (const char* wrong :
       {"snap", "snap=", "snap=x", "snap=0", "size=-1", "depth=3", "snap=1,,count=2", "snap=99999999999"}) {
    EXPECT_FALSE(parse_capture_limits(wrong).ok()) << wrong;
  }
}

TEST_F(CaptureFileTest, TsharkDissectsEveryPacket) {
  if (std::system("tshark --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "tshark is not installed";
  std::size_t count = 0;
  {
    RecordingLink inner;
    auto file = CaptureFile::open(path_);
    ASSERT_TRUE(file.ok());
    CaptureLink link(inner, **file, {});
    count = exchange_every_opcode(link, inner);
  }
  const auto lines = [&](const std::string& filter) {
    const std::string command = "tshark -r " + path_ + " -Y '" + filter + "' 2>/dev/null | wc -l";
    std::FILE* pipe = popen(command.c_str(), "r");
    std::size_t answer = 99'999;
    EXPECT_EQ(std::fscanf(pipe, "%zu", &answer), 1);
    pclose(pipe);
    return answer;
  };
  EXPECT_EQ(lines("infiniband.bth.psn"), count);
  EXPECT_EQ(lines("_ws.malformed"), 0u);
}

// Counts the writes before a packet takes effect.
class Witness final : public Receiver {
 public:
  explicit Witness(const MemorySink& sink) : sink_(sink) {}
  void on_packet(const wire::TransportPacket&, const objects::PacketOrigin&) override {
    writes = sink_.writes;
  }
  int writes = 0;

 private:
  const MemorySink& sink_;
};

int writes_before_effect(wire::Opcode opcode, bool write_through, bool faults) {
  RecordingLink inner;
  MemorySink sink;
  CaptureLink link(inner, sink, {.write_through = write_through});
  link.expect_faults(faults);
  static const std::vector<std::uint8_t> memory(4096, 0xa5);
  inner.arriving.push_back({{headers_of(opcode, 1), Octets(memory).first(payload_of(opcode))}, {}});
  Witness witness(sink);
  link.poll(witness, Instant{}, 16);
  return witness.writes;
}

TEST(CaptureLink, APacketThatEndsAMessageIsWrittenBeforeItsEffect) {
  constexpr auto kRc = wire::Transport::kReliableConnection;
  const wire::Opcode only(kRc, wire::Step::kSendOnly), first(kRc, wire::Step::kSendFirst);
  EXPECT_EQ(writes_before_effect(only, true, false), 1);
  EXPECT_EQ(writes_before_effect(wire::Opcode(kRc, wire::Step::kAcknowledge), true, false), 1);
  EXPECT_EQ(writes_before_effect(first, true, false), 0) << "it goes with the last one";
  EXPECT_EQ(writes_before_effect(only, false, false), 0);
  EXPECT_EQ(writes_before_effect(only, true, true), 0) << "a rule may take it yet";
}

}  // namespace rrdma::link::capture_link_test
