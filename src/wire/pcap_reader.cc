#include "wire/pcap_reader.h"
#include "base/result_try.h"

#include <algorithm>
#include <charconv>

namespace rrdma::wire {
namespace {

constexpr std::uint32_t kMagicMicroseconds = 0xa1b2c3d4;
constexpr std::uint32_t kMagicNanoseconds = 0xa1b23c4d;
constexpr std::size_t kFileHeaderOctets = 24;
constexpr std::size_t kRecordHeaderOctets = 16;
constexpr std::uint16_t kPcapMajor = 2;

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

std::string_view text_of(Octets octets) {
  return {reinterpret_cast<const char*>(octets.data()), octets.size()};
}

// The fourth value of the two bits is undefined.
PacketDirection direction_of(std::uint32_t packet_flags) {
  const std::uint32_t direction = packet_flags & 3;
  return direction == 3 ? PacketDirection::kUnknown : static_cast<PacketDirection>(direction);
}

constexpr std::uint64_t power_of_ten(unsigned exponent) {
  std::uint64_t power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

}  // namespace

std::string_view describe(CaptureFault fault) {
  switch (fault) {
    case CaptureFault::kEmpty: return "the file is empty";
    case CaptureFault::kForeign: return "neither a pcap nor a pcapng file";
    case CaptureFault::kVersion: return "unknown version of the capture format";
    case CaptureFault::kTruncated: return "the file is truncated";
    case CaptureFault::kBlockLength: return "impossible block length";
    case CaptureFault::kByteOrder: return "unknown byte-order mark in a section";
    case CaptureFault::kOption: return "an option goes beyond its block";
    case CaptureFault::kUnknownInterface: return "a packet of an interface that was not described";
    case CaptureFault::kTooManyInterfaces: return "more interfaces than any capture has";
  }
  return "unknown fault";
}

std::uint16_t PcapReader::load16(const std::uint8_t* from) const {
  const std::uint16_t value = load_be16(from);
  return big_endian_ ? value : swap_octets(value);
}
std::uint32_t PcapReader::load32(const std::uint8_t* from) const {
  const std::uint32_t value = load_be32(from);
  return big_endian_ ? value : swap_octets(value);
}

Result<PcapReader, CaptureError> PcapReader::open(Octets file) {
  if (file.empty()) return Failure{CaptureError{CaptureFault::kEmpty, 0}};
  if (file.size() < 4) return Failure{CaptureError{CaptureFault::kForeign, 0}};
  PcapReader reader(file);
  const std::uint32_t first = load_be32(file.data());
  if (first == kSectionBlock) {
    // Report an unreadable first section when the file is opened, not with the first packet.
    reader.format_ = Format::kPcapng;
    const auto block = reader.next_block();
    RRDMA_TRY(block);
    if (const auto section = reader.begin_section(*block); !section) return Failure{section.error()};
    return reader;
  }
  if (const auto opened = reader.open_pcap(); !opened) return Failure{opened.error()};
  return reader;
}

Result<std::optional<CapturedPacket>, CaptureError> PcapReader::next() {
  auto packet = format_ == Format::kPcap ? next_record() : next_packet_block();
  if (!packet) at_ = file_.size();
  return packet;
}

Result<void, CaptureError> PcapReader::open_pcap() {
  const std::uint32_t big = load_be32(file_.data());
  const std::uint32_t little = swap_octets(big);
  const auto known = [](std::uint32_t magic) {
    return magic == kMagicMicroseconds || magic == kMagicNanoseconds;
  };
  if (!known(big) && !known(little)) return Failure{CaptureError{CaptureFault::kForeign, 0}};
  if (file_.size() < kFileHeaderOctets) return Failure{CaptureError{CaptureFault::kTruncated, 0}};
  big_endian_ = known(big);
  nanosecond_records_ = (big_endian_ ? big : little) == kMagicNanoseconds;
  if (load16(file_.data() + 4) != kPcapMajor) return Failure{CaptureError{CaptureFault::kVersion, 0}};
  // The upper half of the link field describes a frame check sequence, which the frame parser reports as the
  // trailer.
  const auto link = static_cast<LinkType>(load32(file_.data() + 20) & 0xffff);
  interfaces_.push_back({.link = link, .snap_octets = load32(file_.data() + 16), .name = {}});
  at_ = kFileHeaderOctets;
  return {};
}

PcapReader::PacketResult PcapReader::next_record() {
  const Octets rest = file_.subspan(at_);
  if (rest.empty()) return Packet{};
  if (rest.size() < kRecordHeaderOctets) return Failure{CaptureError{CaptureFault::kTruncated, at_}};
  const std::uint32_t captured = load32(rest.data() + 8);
  if (captured > rest.size() - kRecordHeaderOctets)
    return Failure{CaptureError{CaptureFault::kTruncated, at_}};
  CapturedPacket packet;
  const std::uint64_t fraction = load32(rest.data() + 4);
  packet.time_ns = load32(rest.data()) * kNsPerSecond + (nanosecond_records_ ? fraction : fraction * 1000);
  packet.link = interfaces_.front().link;
  packet.octets = rest.subspan(kRecordHeaderOctets, captured);
  packet.original_octets = load32(rest.data() + 12);
  at_ += kRecordHeaderOctets + captured;
  return Packet{std::move(packet)};
}

PcapReader::PacketResult PcapReader::next_packet_block() {
  while (at_ < file_.size()) {
    const auto block = next_block();
    RRDMA_TRY(block);
    switch (block->type) {
      case kSectionBlock:
        if (const auto section = begin_section(*block); !section) return Failure{section.error()};
        break;
      case kInterfaceBlock:
        if (const auto added = add_interface(*block); !added) return Failure{added.error()};
        break;
      case kStatisticsBlock: add_statistics(*block); break;
      case kJournalBlock: add_note(*block); break;
      case kEnhancedPacketBlock: return enhanced_packet(*block);
      case kSimplePacketBlock: return simple_packet(*block);
      default: break;
    }
  }
  return Packet{};
}

Result<PcapReader::Block, CaptureError> PcapReader::next_block() {
  const std::size_t offset = at_;
  const Octets rest = file_.subspan(offset);
  if (rest.size() < kBlockFrameOctets) return Failure{CaptureError{CaptureFault::kTruncated, offset}};
  if (load_be32(rest.data()) == kSectionBlock) {
    // The first block of a section states its byte order, which applies from that block on.
    const std::uint32_t mark = load_be32(rest.data() + 8);
    if (mark != kByteOrderMark && swap_octets(mark) != kByteOrderMark) {
      return Failure{CaptureError{CaptureFault::kByteOrder, offset}};
    }
    big_endian_ = mark == kByteOrderMark;
  }
  const std::uint32_t total = load32(rest.data() + 4);
  if (total < kBlockFrameOctets || total % 4 != 0)
    return Failure{CaptureError{CaptureFault::kBlockLength, offset}};
  if (total > rest.size()) return Failure{CaptureError{CaptureFault::kTruncated, offset}};
  if (load32(rest.data() + total - 4) != total)
    return Failure{CaptureError{CaptureFault::kBlockLength, offset}};
  at_ += total;
  return Block{offset, load32(rest.data()), rest.subspan(8, total - kBlockFrameOctets)};
}

Result<void, CaptureError> PcapReader::begin_section(const Block& block) {
  if (block.body.size() < kSectionBodyOctets)
    return Failure{CaptureError{CaptureFault::kBlockLength, block.offset}};
  if (load16(block.body.data() + 4) != kPcapngMajor)
    return Failure{CaptureError{CaptureFault::kVersion, block.offset}};
  interfaces_.clear();
  clocks_.clear();
  return {};
}

Result<void, CaptureError> PcapReader::add_interface(const Block& block) {
  if (block.body.size() < 8) return Failure{CaptureError{CaptureFault::kBlockLength, block.offset}};
  if (interfaces_.size() == kInterfacesMax)
    return Failure{CaptureError{CaptureFault::kTooManyInterfaces, block.offset}};
  CaptureInterface interface;
  interface.link = static_cast<LinkType>(load16(block.body.data()));
  interface.snap_octets = load32(block.body.data() + 4);
  Clock clock;
  Octets options = block.body.subspan(8);
  for (;;) {
    const auto option = next_option(options, block.offset);
    RRDMA_TRY(option);
    if (option->code == kOptionEnd) break;
    if (option->code == kOptionInterfaceName) interface.name = text_of(option->value);
    if (option->code == kOptionTimeResolution && !option->value.empty())
      clock.resolution = option->value.front();
    if (option->code == kOptionTimeOffset && option->value.size() == 8) {
      const std::uint64_t first = load32(option->value.data());
      const std::uint64_t second = load32(option->value.data() + 4);
      clock.offset_s = static_cast<std::int64_t>(big_endian_ ? first << 32 | second : second << 32 | first);
    }
  }
  interfaces_.push_back(std::move(interface));
  clocks_.push_back(clock);
  return {};
}

// Ignores unreadable statistics, like every block that does not describe packets.
void PcapReader::add_statistics(const Block& block) {
  constexpr std::size_t kFixedOctets = 12;  // interface, time
  if (block.body.size() < kFixedOctets) return;
  Octets options = block.body.subspan(kFixedOctets);
  for (auto option = next_option(options, block.offset); option && option->code != kOptionEnd;
       option = next_option(options, block.offset)) {
    if (option->code != kOptionLeftOut || option->value.size() != 8) continue;
    const std::uint64_t first = load32(option->value.data()), second = load32(option->value.data() + 4);
    left_out_ += big_endian_ ? first << 32 | second : second << 32 | first;
  }
}

// Ignores an entry without text or with nonsensical values, as add_statistics() does.
void PcapReader::add_note(const Block& block) {
  CaptureNote note;
  for (std::string_view rest = text_of(block.body); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t sign = line.find('=');
    if (sign == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, sign), value = line.substr(sign + 1);
    std::uint64_t microseconds = 0;
    if (name == kJournalText) note.text = value;
    if (name == kJournalFacts) note.facts = value;
    if (name == kJournalTime) std::from_chars(value.data(), value.data() + value.size(), microseconds);
    if (microseconds != 0) note.time_ns = microseconds * 1000;
  }
  if (!note.text.empty() && notes_.size() < kNotesMax) notes_.push_back(note);
}

PcapReader::PacketResult PcapReader::enhanced_packet(const Block& block) const {
  constexpr std::size_t kFixedOctets = 20;
  if (block.body.size() < kFixedOctets)
    return Failure{CaptureError{CaptureFault::kBlockLength, block.offset}};
  const std::uint8_t* p = block.body.data();
  CapturedPacket packet;
  packet.interface = load32(p);
  if (packet.interface >= interfaces_.size())
    return Failure{CaptureError{CaptureFault::kUnknownInterface, block.offset}};
  packet.link = interfaces_[packet.interface].link;
  const std::uint64_t ticks = static_cast<std::uint64_t>(load32(p + 4)) << 32 | load32(p + 8);
  packet.time_ns = clocks_[packet.interface].nanoseconds(ticks);
  const std::size_t captured = load32(p + 12);
  packet.original_octets = load32(p + 16);
  const Octets rest = block.body.subspan(kFixedOctets);
  if (captured > rest.size()) return Failure{CaptureError{CaptureFault::kBlockLength, block.offset}};
  packet.octets = rest.first(captured);
  Octets options = rest.subspan(std::min((captured + 3) & ~std::size_t{3}, rest.size()));
  for (;;) {
    const auto option = next_option(options, block.offset);
    RRDMA_TRY(option);
    if (option->code == kOptionEnd) break;
    if (option->code == kOptionComment) packet.comments.push_back(text_of(option->value));
    if (option->code == kOptionPacketFlags && option->value.size() == 4)
      packet.direction = direction_of(load32(option->value.data()));
  }
  return Packet{std::move(packet)};
}

PcapReader::PacketResult PcapReader::simple_packet(const Block& block) const {
  if (block.body.size() < 4) return Failure{CaptureError{CaptureFault::kBlockLength, block.offset}};
  if (interfaces_.empty()) return Failure{CaptureError{CaptureFault::kUnknownInterface, block.offset}};
  const CaptureInterface& interface = interfaces_.front();
  CapturedPacket packet;
  packet.link = interface.link;
  packet.original_octets = load32(block.body.data());
  std::size_t captured = packet.original_octets;
  if (interface.snap_octets != 0) captured = std::min<std::size_t>(captured, interface.snap_octets);
  const Octets rest = block.body.subspan(4);
  if (captured > rest.size()) return Failure{CaptureError{CaptureFault::kBlockLength, block.offset}};
  packet.octets = rest.first(captured);
  return Packet{std::move(packet)};
}

Result<PcapReader::Option, CaptureError> PcapReader::next_option(Octets& rest,
                                                                 std::size_t block_offset) const {
  if (rest.empty()) return Option{};  // the end mark is optional
  if (rest.size() < 4) return Failure{CaptureError{CaptureFault::kOption, block_offset}};
  const std::uint16_t code = load16(rest.data());
  const std::size_t length = load16(rest.data() + 2);
  if (length > rest.size() - 4) return Failure{CaptureError{CaptureFault::kOption, block_offset}};
  const Option option{code, rest.subspan(4, length)};
  rest = rest.subspan(std::min(4 + ((length + 3) & ~std::size_t{3}), rest.size()));
  return option;
}

std::uint64_t PcapReader::Clock::nanoseconds(std::uint64_t ticks) const {
  __extension__ using Wide = unsigned __int128;
  const unsigned exponent = resolution & 0x7f;
  Wide ns = 0;
  if ((resolution & 0x80) != 0) {
    ns = Wide{ticks} * kNsPerSecond >> exponent;
  } else if (exponent <= 9) {
    ns = Wide{ticks} * power_of_ten(9 - exponent);
  } else if (exponent - 9 <= 19) {
    ns = ticks / power_of_ten(exponent - 9);
  }
  // Nonsensical times may overflow and wrap; they affect only what is printed.
  return static_cast<std::uint64_t>(ns) + static_cast<std::uint64_t>(offset_s) * kNsPerSecond;
}

}  // namespace rrdma::wire
