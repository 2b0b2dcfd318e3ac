// CaptureLink: a link around a link that writes down what is sent and received, as whole RoCE v2 packets:
// Ethernet, IP, UDP and a right ICRC, also where the inner link has none of these (shared memory).
// Addresses are those of the GIDs; MAC addresses are made from them. What the wire really carries may
// differ where nobody looks: identification, UDP checksum.
//
// Sent frames get the time of the flush that sends them; until then they wait as finished packets.
//
// What faults on purpose did to a packet is a comment on it, "fault: drop (rule 2)"; one that they took away is there like
// the others, so that it is no gap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/octets.h"
#include "link/capture_sink.h"
#include "link/link.h"
#include "wire/pcapng_writer.h"
#include "wire/roce_packet.h"

namespace rrdma::link {

struct CaptureConfig {
  std::string interface_name = "rrdma0";
  std::string application = "rrdma";
  std::uint32_t snap_octets = 0;     // of each packet; 0: all
  std::int64_t epoch_offset_ns = 0;  // what must be added to an Instant to make it time since 1970
};

class CaptureLink final : public Link, private Receiver {
 public:
  // Both must outlive it.
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
  // Something that happened and is no packet; it reaches the file at once.
  void note(Instant now, std::string_view text);

 private:
  static constexpr std::size_t kPayloadOctetsMax = 4096;
  static constexpr std::size_t kPacketOctetsMax =
      14 + 40 + 8 + wire::kHeaderOctetsMax + kPayloadOctetsMax + 3 + 4;
  static constexpr std::size_t kPendingMax = 128;
  // How long a packet may be on its way to the file: what a killed program loses.
  static constexpr Duration kWriteOut = milliseconds(50);

  struct Ends {
    wire::Gid source;
    wire::Gid destination;
    std::uint16_t source_port = 0;
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 64;
  };
  struct Faults {
    std::uint8_t kinds = 0;  // of objects::InjectedFault
    std::uint32_t rule = 0;
  };
  struct Pending {
    std::size_t octets = 0;
    Faults faults;
  };

  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override;
  [[nodiscard]] std::size_t emit_packet(const Ends& ends, Octets transport, MutableOctets to) const;
  void record(const objects::Frame& frame);
  void write(Octets packet, Instant when, wire::PacketDirection direction, const Faults& faults);
  void write_received();
  void write_pending(Instant now);
  void write_out_when_due(Instant now);

  Link& inner_;
  CaptureSink& sink_;
  const std::int64_t epoch_offset_ns_;
  wire::PcapngWriter writer_;
  std::uint32_t interface_ = 0;
  Receiver* receiver_ = nullptr;  // during poll()
  Instant now_{};                 // of the last call that said
  Instant last_write_out_{};
  bool dirty_ = false;
  std::uint64_t captured_ = 0;
  std::uint64_t skipped_ = 0;  // unreadable, or longer than a packet may be

  std::vector<std::uint8_t> pending_octets_;  // kPendingMax places
  std::array<Pending, kPendingMax> pending_{};
  std::size_t pending_count_ = 0;
  std::array<std::uint8_t, wire::kHeaderOctetsMax + kPayloadOctetsMax + 4> transport_{};
  std::array<std::uint8_t, kPacketOctetsMax> packet_{};
  Pending received_;  // what is handed over now, in packet_: a fault may take it yet
  std::vector<LinkCounter> published_;
};

}  // namespace rrdma::link
