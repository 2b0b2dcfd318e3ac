// CaptureLink: a decorator that records sent and received packets as whole RoCE v2 packets: Ethernet, IP, UDP
// and a valid ICRC. It adds those headers if the inner link has none (shared memory). Addresses come from the
// GIDs, and MAC addresses are derived from them. The real packets may differ in fields that no reader checks:
// identification, UDP checksum.
//
// Sent frames get the time of the flush that sends them; until then they wait as finished packets. With a
// clock, each packet of a burst has its own time: that at which it is received or handed over to be sent.
//
// With `write_through`, a packet that ends or answers a message is in the file before it takes effect. So the
// capture of a killed program is complete. Other packets are written with the next such packet, or within
// kWriteOut.
//
// The first packet that arrives for a queue pair has a comment that names its program. Another comment names
// the faults injected into a packet, "fault: drop (rule 2)". A dropped packet is recorded like the others, so
// it leaves no gap. A sent packet whose payload came from the memory of a device says so. Notes name methods.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/name_list.h"
#include "base/octets.h"
#include "link/capture_sink.h"
#include "link/link.h"
#include "wire/pcapng_writer.h"
#include "wire/roce_packet.h"

namespace rrdma::link {

struct CaptureConfig {
  std::string interface_name = "rrdma0";
  std::string application = "rrdma";
  std::string owner;                 // "rping, process 12": named with the first packet for each queue pair
  std::uint32_t snap_octets = 0;     // of each packet; 0: all
  std::int64_t epoch_offset_ns = 0;  // added to an Instant to get the time since 1970
  bool write_through = false;
  Instant (*clock)() = nullptr;       // null: all packets of a call have the time of that call
  const NameList* methods = nullptr;  // of rrdma::rpc, that the program serves or calls; may grow
};

class CaptureLink final : public Link, private Receiver {
 public:
  // Both must outlive the link.
  CaptureLink(Link& inner, CaptureSink& sink, const CaptureConfig& config);
  ~CaptureLink() override;

  objects::Frame* reserve(const objects::Path& path) override { return inner_.reserve(path); }
  void commit(objects::Frame& frame) override;
  void cancel(objects::Frame& frame) override { inner_.cancel(frame); }
  void lose(objects::Frame& frame) override;
  void note_faults(std::uint32_t rule, std::uint8_t faults) override;
  void flush(Instant now) override;
  std::size_t poll(Receiver& receiver, Instant now, std::size_t burst_max) override;
  [[nodiscard]] Instant next_deadline() const override;
  [[nodiscard]] std::span<const LinkCounter> counters() override;
  // The time of the frames that are committed next. flush() and poll() set it, too.
  void note_time(Instant now) { now_ = now; }
  // Fault rules follow: a received packet is written after them, with their comment.
  void expect_faults(bool expected) { faults_expected_ = expected; }
  // Records an event that is not a packet. It reaches the file at once.
  void note(Instant now, std::string_view text, std::string_view facts = {});
  // Records a packet that no link of ours carried: a message of the connection manager.
  struct ForeignPacket {
    wire::Gid source;
    wire::Gid destination;
    std::uint16_t source_port = 0;
    Octets transport;  // BTH and what follows, without ICRC
    wire::PacketDirection direction = wire::PacketDirection::kUnknown;
    Instant when;
  };
  void record_foreign(const ForeignPacket& packet);

 private:
  static constexpr std::size_t kPayloadOctetsMax = 4096;
  static constexpr std::size_t kPacketOctetsMax =
      14 + 40 + 8 + wire::kHeaderOctetsMax + kPayloadOctetsMax + 3 + 4;
  static constexpr std::size_t kPendingMax = 128;
  static constexpr std::size_t kNamedMax = 65'536;
  // How long a packet may be on its way to the file.
  static constexpr Duration kWriteOut = milliseconds(50);

  struct Ends {
    wire::Gid source;
    wire::Gid destination;
    std::uint16_t source_port = 0;
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 64;
  };
  struct Faults {
    std::uint8_t kinds = 0;  // objects::InjectedFault bits
    std::uint32_t rule = 0;
  };
  struct Pending {
    std::size_t octets = 0;
    Faults faults;
    Instant when;           // of a received packet
    std::uint32_t qpn = 0;  // the queue pair that a received packet is the first for
    bool staged = false;
  };

  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override;
  [[nodiscard]] bool is_first_for(std::uint32_t qpn);
  [[nodiscard]] std::size_t emit_packet(const Ends& ends, Octets transport, MutableOctets to) const;
  void record(const objects::Frame& frame);
  void write(Octets packet, Instant when, wire::PacketDirection direction, const Faults& faults,
             std::uint32_t first_for = 0, bool staged = false);
  void write_received();
  void write_methods(Instant when);
  // The time of the next packet: never before that of the last one.
  Instant stamp();
  void write_pending(Instant now);
  void write_out_when_due(Instant now);
  [[nodiscard]] bool goes_through(wire::Opcode opcode) const {
    return write_through_ && wire::shape_of(opcode).ends_message;
  }
  void write_out();

  Link& inner_;
  CaptureSink& sink_;
  const std::int64_t epoch_offset_ns_;
  const bool write_through_;
  const std::string owner_;
  std::unordered_set<std::uint32_t> named_;  // queue pairs
  Instant (*const clock_)();
  const NameList* const methods_;
  std::size_t methods_written_ = 0;
  wire::PcapngWriter writer_;
  std::uint32_t interface_ = 0;
  Receiver* receiver_ = nullptr;  // during poll()
  Instant now_{};                 // of the last call that passed it
  Instant last_write_out_{};
  bool dirty_ = false;
  bool faults_expected_ = false;
  std::uint64_t captured_ = 0;
  std::uint64_t skipped_ = 0;  // unreadable, or longer than a packet may be

  std::vector<std::uint8_t> pending_octets_;  // kPendingMax slots
  std::array<Pending, kPendingMax> pending_{};
  std::size_t pending_count_ = 0;
  std::array<std::uint8_t, wire::kHeaderOctetsMax + kPayloadOctetsMax + 4> transport_{};
  std::array<std::uint8_t, kPacketOctetsMax> packet_{};
  Pending received_;  // the packet being delivered, in packet_; a fault may still drop it
  std::vector<LinkCounter> published_;
};

}  // namespace rrdma::link
