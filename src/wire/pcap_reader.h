// PcapReader: iterates over the packets of a pcap or pcapng file in memory, without copying them. It detects
// the format, the byte order and the unit of time from the file. The caller reads the file into memory; that
// memory must outlive the reader and everything the reader returned.
//
//   pcap    header(24) { record-header(16) data }*         microseconds or nanoseconds
//   pcapng  { section { interface | packet | other }* }*   blocks of type, length, body, length again
//
// Journal entries become notes; blocks of other types are skipped. Reading stops at the first error, because
// nothing behind it can be trusted.
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
  kVersion,           // unsupported version of the file format
  kTruncated,         // the file ends within a header, a record or a block
  kBlockLength,       // pcapng: impossible, or the two lengths of a block differ
  kByteOrder,         // pcapng: a section with an unknown byte-order mark
  kOption,            // pcapng: an option extends beyond its block
  kUnknownInterface,  // pcapng: a packet of an interface that was not described before
  kTooManyInterfaces,
};
[[nodiscard]] std::string_view describe(CaptureFault fault);

struct CaptureError {
  CaptureFault fault = CaptureFault::kForeign;
  std::size_t offset = 0;  // file offset of the malformed header, record or block
};

struct CaptureInterface {
  LinkType link = LinkType::kEthernet;
  std::uint32_t snap_octets = 0;  // 0: no limit
  std::string name;               // pcapng if_name; empty if absent
};

struct CapturedPacket {
  std::uint64_t time_ns = 0;    // since 1970; 0 if the file does not say (simple packet blocks)
  std::uint32_t interface = 0;  // index into interfaces() when this packet was returned
  LinkType link = LinkType::kEthernet;
  Octets octets;                      // may be cut: see original_octets
  std::uint32_t original_octets = 0;  // on the wire
  PacketDirection direction = PacketDirection::kUnknown;
  std::vector<std::string_view> comments;
};

// An event that is not a packet (pcapng: a journal entry).
struct CaptureNote {
  std::uint64_t time_ns = 0;  // since 1970
  std::string_view text;
  std::string_view facts;  // empty: none
};

// The rpc method that the note names (kMethodNote); empty if it names none.
[[nodiscard]] inline std::string_view method_named_in(const CaptureNote& note) {
  return note.text.starts_with(kMethodNote) ? note.text.substr(kMethodNote.size()) : std::string_view();
}

class PcapReader {
 public:
  enum class Format : std::uint8_t { kPcap, kPcapng };

  static constexpr std::size_t kInterfacesMax = 4096;  // of one section
  static constexpr std::size_t kNotesMax = 65536;      // not yet taken; further ones are dropped

  [[nodiscard]] static Result<PcapReader, CaptureError> open(Octets file);

  // The next packet; empty at the end of the file.
  [[nodiscard]] Result<std::optional<CapturedPacket>, CaptureError> next();

  [[nodiscard]] Format format() const { return format_; }
  // Packets that the capturing program dropped, according to the statistics read so far (pcapng).
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
  // The notes that next() passed since the last call.
  [[nodiscard]] std::vector<CaptureNote> take_notes() { return std::exchange(notes_, {}); }
  // The interfaces of the current section. A pcap file has one, without a name.
  [[nodiscard]] const std::vector<CaptureInterface>& interfaces() const { return interfaces_; }

 private:
  // Converts the ticks of a pcapng interface to nanoseconds.
  struct Clock {
    std::uint8_t resolution = 6;  // as if_tsresol: 10^-n seconds, or 2^-(n & 0x7f) if the top bit is set
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
  // Removes the next option from `rest`; code 0 at the end.
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
