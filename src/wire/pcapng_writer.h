// PcapngWriter: makes a pcapng file, block by block, with nanosecond time, interface names and packet
// comments. It does no I/O: each finished block is handed to the sink, whole, in one call. Little-endian
// on every machine.
//
//   section-header { interface-description }* { enhanced-packet | journal-entry }*
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/octets.h"
#include "wire/link_type.h"
#include "wire/pcapng_format.h"

namespace rrdma::wire {

struct PacketRecord {
  std::uint32_t interface = 0;     // as add_interface() numbered it
  std::uint64_t time_ns = 0;       // since 1970
  std::span<const Octets> pieces;  // the packet, gathered
  std::string_view comment;        // empty: none
  PacketDirection direction = PacketDirection::kUnknown;
};

class PcapngWriter {
 public:
  // The octets are valid during the call only.
  using Sink = std::function<void(Octets block)>;

  // What readers accept; of a longer packet the beginning is written, with its true length.
  static constexpr std::uint32_t kPacketOctetsMax = 262144;

  // Writes the section header at once; `application` is kept in it.
  explicit PcapngWriter(Sink sink, std::string_view application);

  // Describes an interface and returns its number, counting from 0. Of its packets no more than `snap_octets` are
  // written.
  std::uint32_t add_interface(LinkType link, std::string_view name,
                              std::uint32_t snap_octets = kPacketOctetsMax);

  // REQUIRES: an interface that was added.
  void write(const PacketRecord& record);

  // Something that happened and is no packet: Wireshark shows it as an entry of a journal, by its time.
  void write_note(std::uint64_t time_ns, std::string_view text);

  // At the end: how many packets the interface saw, and how many of them could not be kept.
  // REQUIRES: an interface that was added.
  void write_statistics(std::uint32_t interface, std::uint64_t time_ns, std::uint64_t seen,
                        std::uint64_t left_out);

 private:
  void begin_block(std::uint32_t type);
  void end_block();
  void append16(std::uint16_t value);
  void append32(std::uint32_t value);
  void append_time(std::uint64_t time_ns);
  void append(Octets octets) { block_.insert(block_.end(), octets.begin(), octets.end()); }
  void append_padded(Octets octets);
  void append_option(std::uint16_t code, Octets value);

  Sink sink_;
  std::vector<std::uint32_t> snap_octets_;  // of each interface
  std::vector<std::uint8_t> block_;         // being made; its memory is kept from block to block
};

}  // namespace rrdma::wire
