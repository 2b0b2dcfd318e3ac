// Frame and FrameSink: how packets leave the engine. The engine reserves a frame from the sink before it
// advances any sequence state, so a full link never forces a rollback. The payload of a frame is a list of
// spans into registered memory or a work queue entry. The engine copies nothing that the link can gather.
// Spans are valid only until the sink's transmit call returns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "objects/path.h"
#include "wire/headers.h"
#include "wire/opcode.h"

namespace rrdma::objects {

inline constexpr std::size_t kSgeMax = 32;

struct PayloadSpan {
  const std::uint8_t* data = nullptr;
  std::size_t length = 0;
};

struct MutableSpan {
  std::uint8_t* data = nullptr;
  std::size_t length = 0;
};

// The injected faults of a frame, as bits for capture.
enum InjectedFault : std::uint8_t {
  kFaultDrop = 1,
  kFaultDuplicate = 2,  // this frame is the duplicate
  kFaultReorder = 4,
  kFaultCorrupt = 8,
  kFaultEcn = 16,
  kFaultDelay = 32,
  kFaultBlock = 64,  // blocks everything: a port that is down, a partition
};

// An acknowledgement that travels with a request of the same QP, as if sent before it in its own packet.
struct RidingAck {
  bool present = false;
  wire::Psn psn;
  wire::Aeth aeth;
};

struct Frame {
  const Path* path = nullptr;
  std::uint8_t header_octets = 0;  // BTH and extension headers in `header`
  std::uint8_t pad = 0;            // as in the BTH; the link appends that many zero bytes
  std::uint8_t span_count = 0;
  std::uint8_t faults = 0;   // bits of InjectedFault
  bool own_payload = false;  // the spans are our own memory, which a program cannot unmap
  bool staged = false;       // some of the payload was copied from memory that the CPU cannot touch
  std::int32_t corrupt_bit =
      -1;  // fault injection: the link flips this bit of the packet (modulo its length)
  std::uint32_t payload_octets = 0;  // sum of the spans; exceeds one path MTU only if the path accepts trains
  std::uint32_t fault_rule = 0;      // with `faults`: the number of the rule; 0: none
  RidingAck ack;                     // only if the path accepts trains and is lossless
  alignas(8) std::array<std::uint8_t, wire::kHeaderOctetsMax + 4> header{};
  std::array<PayloadSpan, kSgeMax + 1> spans{};

  void clear() {
    header_octets = pad = span_count = faults = 0;
    own_payload = staged = false;
    corrupt_bit = -1;
    payload_octets = 0;
    ack.present = false;
  }
  [[nodiscard]] wire::Kind kind() const { return wire::shape_of(wire::Opcode(header[0])).kind; }
  void add_span(const std::uint8_t* data, std::size_t length) {
    spans[span_count++] = {data, length};
    payload_octets += static_cast<std::uint32_t>(length);
  }
};

// The origin of a packet, as the link saw it.
struct PacketOrigin {
  wire::Gid source;
  wire::Gid destination;
  const std::uint8_t* grh = nullptr;  // 40 bytes: the GRH area of a UD receive
  std::uint32_t party = 0;            // the sender, if the link knows it; 0: the network
  std::uint16_t source_port = 0;      // UDP; 0 if the link has none
  std::uint32_t interface_index = 0;  // of the receiving interface; 0 if unknown
  std::uint8_t traffic_class = 0;
  bool ecn_marked = false;

  // The packet type of a datagram, which the completion must report (IBTA A17.4.5.1). Bit 3 stands for a UDP
  // header, the other bits for the network header. libibverbs has no field for it. NICs report it in the
  // service level, which RoCE does not use, and programs (UCX) interpret the GRH area accordingly.
  [[nodiscard]] std::uint8_t packet_type() const {
    constexpr std::uint8_t kUdp = 8, kIpv6 = 1, kIpv4 = 2;
    return kUdp | (destination.is_ipv4() ? kIpv4 : kIpv6);
  }
};

// For lossless links: whether the other end has received every frame sent along this path and had time to
// answer. Until then (it is stopped, or slow) its silence means nothing and does not count as a retry.
class PathProbe {
 public:
  virtual ~PathProbe() = default;
  [[nodiscard]] virtual bool answered(const Path& path) const = 0;
};

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // A frame to fill for this path, or null if the link has no room. On null the caller leaves its state
  // unchanged and asks again later. At most one frame is reserved at a time.
  virtual Frame* reserve(const Path& path) = 0;
  // Sends the reserved frame.
  virtual void commit(Frame& frame) = 0;
  // Returns the reserved frame unused.
  virtual void cancel(Frame&) {}
};

}  // namespace rrdma::objects
