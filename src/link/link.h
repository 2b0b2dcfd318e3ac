// Link: what carries frames between NICs. Virtual calls happen once for each frame reserved and once for
// each burst, never for each octet. Decorators (fault, capture) are Links around a Link.
//
// Transmit: reserve() a frame, fill it, commit() it, ...; flush() hands the burst over. Frames' spans
// must stay readable until flush() returns. Receive: poll() hands every arrived packet, parsed and with
// its ICRC checked, to the receiver; packets that are bad are counted by reason and dropped here.
//
// Threads: one at a time (the owner of the lane).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/instant.h"
#include "objects/frame.h"
#include "wire/transport_packet.h"

namespace rrdma::link {

class Receiver {
 public:
  virtual ~Receiver() = default;
  // `packet.payload` and `origin.grh` are good only during the call.
  virtual void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) = 0;
};

struct LinkCounter {
  std::string_view name;
  std::uint64_t value;
};

class Link : public objects::FrameSink {
 public:
  // Sends what was committed since the last flush.
  virtual void flush(Instant now) = 0;
  // Gives the reserved frame back, filled as it is: a fault on purpose took it (Frame::faults). Who writes packets down
  // does so with this one too.
  virtual void lose(objects::Frame& frame) { cancel(frame); }
  // The packet that poll() is handing over met the rule with this number: it goes no further, or later, twice or
  // with a mark. Who writes packets down says so.
  virtual void note_faults(std::uint32_t, std::uint8_t) {}
  // Hands over up to `burst_max` packets (a train counts as one). Returns how many; 0: nothing there.
  virtual std::size_t poll(Receiver& receiver, Instant now, std::size_t burst_max) = 0;
  // When flush() wants to be called next although nothing new is committed (delayed frames); kNever if never.
  [[nodiscard]] virtual Instant next_deadline() const { return kNever; }
  // Counters for tools; the span is good until the next call.
  [[nodiscard]] virtual std::span<const LinkCounter> counters() = 0;
};

}  // namespace rrdma::link
