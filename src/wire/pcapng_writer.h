// PcapngWriter: writes a pcapng file block by block, with nanosecond timestamps, interface names and packet
// comments. It does no I/O: it passes each finished block to the sink in one call. The output is
// little-endian on every machine.
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
  std::uint32_t interface = 0;     // the number that add_interface() returned
  std::uint64_t time_ns = 0;       // since 1970
  std::span<const Octets> pieces;  // the packet, gathered
  std::string_view comment;        // empty: none
  PacketDirection direction = PacketDirection::kUnknown;
};

class PcapngWriter {
 public:
  // The bytes are valid only during the call.
  using Sink = std::function<void(Octets block)>;

  // The limit of common readers. A longer packet is cut, and its true length is recorded.
  static constexpr std::uint32_t kPacketOctetsMax = 262144;

  // Writes the section header at once, including `application`.
  explicit PcapngWriter(Sink sink, std::string_view application);

  // Describes an interface and returns its number, counting from 0. At most `snap_octets` bytes of each
  // packet are written.
  std::uint32_t add_interface(LinkType link, std::string_view name,
                              std::uint32_t snap_octets = kPacketOctetsMax);

  // REQUIRES: the interface was added.
  void write(const PacketRecord& record);

  // Records an event that is not a packet, with the numbers behind it. Wireshark shows it as a journal entry
  // at its time. REQUIRES: no newline in `facts`.
  void write_note(std::uint64_t time_ns, std::string_view text, std::string_view facts = {});

  // Call at the end: the number of packets that the interface saw, and the number that were dropped.
  // REQUIRES: the interface was added.
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
  std::vector<std::uint32_t> snap_octets_;  // for each interface
  std::vector<std::uint8_t> block_;         // the block under construction; its memory is reused
};

}  // namespace rrdma::wire
