#include "wire/pcapng_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"

namespace rrdma::wire {
namespace {

constexpr std::uint8_t kNanoseconds = 9;  // 10^-9
constexpr std::size_t kNoteOctetsMax = 4096;

Octets octets_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

PcapngWriter::PcapngWriter(Sink sink, std::string_view application) : sink_(std::move(sink)) {
  begin_block(kSectionBlock);
  append32(kByteOrderMark);
  append16(1);  // version 1.0
  append16(0);
  append32(0xffffffff);  // section length: unknown
  append32(0xffffffff);
  if (!application.empty()) {
    append_option(kOptionApplication, octets_of(application));
    append_option(kOptionEnd, {});
  }
  end_block();
}

std::uint32_t PcapngWriter::add_interface(LinkType link, std::string_view name, std::uint32_t snap_octets) {
  begin_block(kInterfaceBlock);
  append16(static_cast<std::uint16_t>(link));
  append16(0);
  append32(snap_octets);
  if (!name.empty()) append_option(kOptionInterfaceName, octets_of(name));
  append_option(kOptionTimeResolution, Octets(&kNanoseconds, 1));
  append_option(kOptionEnd, {});
  end_block();
  snap_octets_.push_back(snap_octets);
  return static_cast<std::uint32_t>(snap_octets_.size() - 1);
}

void PcapngWriter::write(const PacketRecord& record) {
  RRDMA_ASSERT(record.interface < snap_octets_.size());
  std::size_t original = 0;
  for (const Octets piece : record.pieces) original += piece.size();
  const std::size_t captured = std::min<std::size_t>(original, snap_octets_[record.interface]);

  begin_block(kEnhancedPacketBlock);
  append32(record.interface);
  append_time(record.time_ns);
  append32(static_cast<std::uint32_t>(captured));
  append32(static_cast<std::uint32_t>(original));
  std::size_t room = captured;
  for (const Octets piece : record.pieces) {
    append(piece.first(std::min(piece.size(), room)));
    room -= std::min(piece.size(), room);
  }
  block_.resize((block_.size() + 3) & ~std::size_t{3});
  if (!record.comment.empty()) append_option(kOptionComment, octets_of(record.comment));
  if (record.direction != PacketDirection::kUnknown) {
    append16(kOptionPacketFlags);
    append16(4);
    append32(static_cast<std::uint32_t>(record.direction));
  }
  const bool any_option = !record.comment.empty() || record.direction != PacketDirection::kUnknown;
  if (any_option) append_option(kOptionEnd, {});
  end_block();
}

// Replaces newlines in the text, because a newline would end the field.
void PcapngWriter::write_note(std::uint64_t time_ns, std::string_view text, std::string_view facts) {
  std::string entry(kJournalTime);
  entry +=
      "=" + std::to_string(time_ns / 1000) + "\nSYSLOG_IDENTIFIER=rrdma\n" + std::string(kJournalText) + "=";
  entry += text.substr(0, kNoteOctetsMax);
  std::replace(entry.end() - static_cast<std::ptrdiff_t>(std::min(text.size(), kNoteOctetsMax)), entry.end(),
               '\n', ' ');
  entry += '\n';
  if (!facts.empty()) entry += std::string(kJournalFacts) + "=" + std::string(facts) + "\n";
  begin_block(kJournalBlock);
  append_padded(octets_of(entry));
  end_block();
}

void PcapngWriter::write_statistics(std::uint32_t interface, std::uint64_t time_ns, std::uint64_t seen,
                                    std::uint64_t left_out) {
  RRDMA_ASSERT(interface < snap_octets_.size());
  begin_block(kStatisticsBlock);
  append32(interface);
  append_time(time_ns);
  for (const auto& [code, value] : {std::pair(kOptionSeen, seen), std::pair(kOptionLeftOut, left_out)}) {
    append16(code);
    append16(sizeof value);
    append32(static_cast<std::uint32_t>(value));
    append32(static_cast<std::uint32_t>(value >> 32));
  }
  append_option(kOptionEnd, {});
  end_block();
}

void PcapngWriter::append_time(std::uint64_t time_ns) {
  append32(static_cast<std::uint32_t>(time_ns >> 32));
  append32(static_cast<std::uint32_t>(time_ns));
}

void PcapngWriter::begin_block(std::uint32_t type) {
  block_.clear();
  append32(type);
  append32(0);  // the length, filled in at the end
}

void PcapngWriter::end_block() {
  const auto total = static_cast<std::uint32_t>(block_.size() + 4);
  append32(total);
  store_be32(block_.data() + 4, swap_octets(total));
  sink_(block_);
}

void PcapngWriter::append16(std::uint16_t value) {
  std::uint8_t octets[2];
  store_be16(octets, swap_octets(value));
  append(octets);
}

void PcapngWriter::append32(std::uint32_t value) {
  std::uint8_t octets[4];
  store_be32(octets, swap_octets(value));
  append(octets);
}

void PcapngWriter::append_padded(Octets octets) {
  append(octets);
  // A block starts at a multiple of four, so its size determines the pad.
  block_.resize((block_.size() + 3) & ~std::size_t{3});
}

// The length of an option has 16 bits; longer text is cut.
void PcapngWriter::append_option(std::uint16_t code, Octets value) {
  value = value.first(std::min<std::size_t>(value.size(), 0xffff));
  append16(code);
  append16(static_cast<std::uint16_t>(value.size()));
  append_padded(value);
}

}  // namespace rrdma::wire
