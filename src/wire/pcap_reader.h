// PcapReader: the packets of a pcap or pcapng file that lies in memory, one after the other, without
// copying them. Which of the two formats it is, the byte order and the unit of time are seen from the
// file itself. Reading the file into memory is the caller's work; it must outlive the reader and what
// the reader gave out.
//
//   pcap    header(24) { record-header(16) octets }*       microseconds or nanoseconds
//   pcapng  { section { interface | packet | other }* }*   blocks of type, length, body, length again
//
// Journal entries are notes; blocks of other types are skipped. The first fault ends the reading: what follows cannot be trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/octets.h"
#include "base/result.h"
#include "wire/link_type.h"
#include "wire/pcapng_format.h"

namespace rrdma::wire {

enum class CaptureFault : std::uint8_t {
  kEmpty,
  kForeign,           // neither pcap nor pcapng
  kVersion,           // of the file format
  kTruncated,         // the file ends within a header, a record or a block
  kBlockLength,       // pcapng: impossible, or the two lengths of a block differ
  kByteOrder,         // pcapng: a section with an unknown byte-order mark
  kOption,            // pcapng: an option goes beyond its block
  kUnknownInterface,  // pcapng: a packet of an interface that was not described
  kTooManyInterfaces,
};
[[nodiscard]] std::string_view describe(CaptureFault fault);

struct CaptureError {
  CaptureFault fault = CaptureFault::kForeign;
  std::size_t offset = 0;  // in the file, of the header, record or block that is wrong
};

struct CaptureInterface {
  LinkType link = LinkType::kEthernet;
  std::uint32_t snap_octets = 0;  // 0: no limit
  std::string name;               // pcapng if_name; empty when not given
};

struct CapturedPacket {
  std::uint64_t time_ns = 0;    // since 1970; 0 when the file does not tell (simple packet blocks)
  std::uint32_t interface = 0;  // index into interfaces() at this moment
  LinkType link = LinkType::kEthernet;
  Octets octets;                      // may be cut: see original_octets
  std::uint32_t original_octets = 0;  // on the wire
  PacketDirection direction = PacketDirection::kUnknown;
  std::vector<std::string_view> comments;
};

// Something that happened and is no packet (pcapng: a journal entry).
struct CaptureNote {
  std::uint64_t time_ns = 0;  // since 1970
  std::string_view text;
};

class PcapReader {
 public:
  enum class Format : std::uint8_t { kPcap, kPcapng };

  static constexpr std::size_t kInterfacesMax = 4096;  // of one section
  static constexpr std::size_t kNotesMax = 65536;      // that nobody has taken; more are passed over

  [[nodiscard]] static Result<PcapReader, CaptureError> open(Octets file);

  // The next packet, or none at the end of the file.
  [[nodiscard]] Result<std::optional<CapturedPacket>, CaptureError> next();

  [[nodiscard]] Format format() const { return format_; }
  // Packets that whoever captured could not keep, as far as was read (pcapng interface statistics).
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
  // What was noted between the packets that next() gave; those since the last time.
  [[nodiscard]] std::vector<CaptureNote> take_notes() { return std::exchange(notes_, {}); }
  // Those of the section that is being read; a pcap file has one, without a name.
  [[nodiscard]] const std::vector<CaptureInterface>& interfaces() const { return interfaces_; }

 private:
  // How the ticks of a pcapng interface become nanoseconds.
  struct Clock {
    std::uint8_t resolution = 6;  // as if_tsresol: 10^-n seconds, or 2^-(n & 0x7f) with the upper bit
    std::int64_t offset_s = 0;
    [[nodiscard]] std::uint64_t nanoseconds(std::uint64_t ticks) const;
  };
  struct Block {
    std::size_t offset = 0;
    std::uint32_t type = 0;
    Octets body;
  };
  struct Option {
    std::uint16_t code = 0;
    Octets value;
  };
  using Packet = std::optional<CapturedPacket>;
  using PacketResult = Result<Packet, CaptureError>;

  explicit PcapReader(Octets file) : file_(file) {}

  [[nodiscard]] Result<void, CaptureError> open_pcap();
  [[nodiscard]] PacketResult next_record();
  [[nodiscard]] PacketResult next_packet_block();
  [[nodiscard]] Result<Block, CaptureError> next_block();
  [[nodiscard]] Result<void, CaptureError> begin_section(const Block& block);
  [[nodiscard]] Result<void, CaptureError> add_interface(const Block& block);
  [[nodiscard]] PacketResult enhanced_packet(const Block& block) const;
  [[nodiscard]] PacketResult simple_packet(const Block& block) const;
  void add_statistics(const Block& block);
  void add_note(const Block& block);
  // Takes the next option off `rest`; code 0 at the end.
  [[nodiscard]] Result<Option, CaptureError> next_option(Octets& rest, std::size_t block_offset) const;

  [[nodiscard]] std::uint16_t load16(const std::uint8_t* from) const;
  [[nodiscard]] std::uint32_t load32(const std::uint8_t* from) const;

  Octets file_;
  std::size_t at_ = 0;
  Format format_ = Format::kPcap;
  bool big_endian_ = false;
  bool nanosecond_records_ = false;
  std::vector<CaptureInterface> interfaces_;
  std::vector<Clock> clocks_;  // one for each interface
  std::uint64_t left_out_ = 0;
  std::vector<CaptureNote> notes_;
};

}  // namespace rrdma::wire
