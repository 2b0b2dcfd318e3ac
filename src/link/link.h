// Link: carries frames between NICs. Virtual calls happen once for each reserved frame and once for each
// burst, never for each byte. Decorators (fault, capture) are Links around a Link.
//
// Transmit: reserve() a frame, fill it, commit() it, ...; flush() sends the burst. The spans of a frame must
// stay readable until flush() returns. Receive: poll() delivers every arrived packet to the receiver, parsed
// and with its ICRC checked. Bad packets are counted by reason and dropped here.
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
  // `packet.payload` and `origin.grh` are valid only during the call.
  virtual void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) = 0;
};

struct LinkCounter {
  std::string_view name;
  std::uint64_t value;
};

class Link : public objects::FrameSink {
 public:
  // Sends the frames committed since the last flush.
  virtual void flush(Instant now) = 0;
  // Returns a reserved and filled frame that an injected fault dropped (Frame::faults). A capture still
  // records it.
  virtual void lose(objects::Frame& frame) { cancel(frame); }
  // The packet that poll() is delivering matched the fault rule with this number: it is dropped, delayed,
  // duplicated or marked. A capture records this.
  virtual void note_faults(std::uint32_t, std::uint8_t) {}
  // Delivers up to `burst_max` packets (a train counts as one). Returns their number; 0: nothing has arrived.
  virtual std::size_t poll(Receiver& receiver, Instant now, std::size_t burst_max) = 0;
  // When flush() must be called next although nothing new is committed (delayed frames); kNever if never.
  [[nodiscard]] virtual Instant next_deadline() const { return kNever; }
  // Counters for tools. The span is valid until the next call.
  [[nodiscard]] virtual std::span<const LinkCounter> counters() = 0;
};

}  // namespace rrdma::link
