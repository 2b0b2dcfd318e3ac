// Frame and FrameSink: how packets leave the engine. The engine reserves a frame from the sink before
// it advances any sequence state, so a full link never forces a rollback. A frame's payload is a list
// of spans into registered memory (or into a work queue entry): the engine never copies what the link
// can gather. Spans are good until the sink's transmit call returns, not longer.
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

// What faults on purpose did to a frame: bits, for whoever writes packets down.
enum InjectedFault : std::uint8_t {
  kFaultDrop = 1,
  kFaultDuplicate = 2,  // this one is the double
  kFaultReorder = 4,
  kFaultCorrupt = 8,
  kFaultEcn = 16,
  kFaultDelay = 32,
  kFaultBlock = 64,  // nothing passes at all: a port that is down, a partition
};

// An acknowledgement that goes with a request of the same QP, as if it had gone before it in a packet of its own.
struct RidingAck {
  bool present = false;
  wire::Psn psn;
  wire::Aeth aeth;
};

struct Frame {
  const Path* path = nullptr;
  std::uint8_t header_octets = 0;  // BTH and extension headers in `header`
  std::uint8_t pad = 0;            // as the BTH says; the link appends that many zero octets
  std::uint8_t span_count = 0;
  std::uint8_t faults = 0;   // of InjectedFault
  bool own_payload = false;  // the spans are memory of ours, which no program can take away
  std::int32_t corrupt_bit =
      -1;  // fault injection: the link flips this bit of the finished packet (modulo its length)
  std::uint32_t payload_octets = 0;  // sum of the spans; more than one path MTU only if the path takes trains
  std::uint32_t fault_rule = 0;      // with `faults`: the number of the rule; 0: it has none
  RidingAck ack;                     // only where the path takes trains and loses nothing
  alignas(8) std::array<std::uint8_t, wire::kHeaderOctetsMax + 4> header{};
  std::array<PayloadSpan, kSgeMax + 1> spans{};

  void clear() {
    header_octets = pad = span_count = faults = 0;
    own_payload = false;
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

// Where a packet came from, as the link saw it.
struct PacketOrigin {
  wire::Gid source;
  wire::Gid destination;
  const std::uint8_t* grh = nullptr;  // 40 octets: the GRH area of a UD receive
  std::uint32_t party = 0;            // whom the link knows to have sent it; 0: the network
  std::uint16_t source_port = 0;      // UDP; 0 where the link has none
  std::uint32_t interface_index = 0;  // that it came by; 0 where the link does not know
  std::uint8_t traffic_class = 0;
  bool ecn_marked = false;

  // The kind of packet that a datagram came in, which the completion must tell (IBTA A17.4.5.1): bit 3 says that
  // it had a UDP header, the others name its network header. libibverbs has no field for it; NICs say it in that of
  // the service level, of which RoCE has none, and programs read the GRH area accordingly (UCX).
  [[nodiscard]] std::uint8_t packet_type() const {
    constexpr std::uint8_t kUdp = 8, kIpv6 = 1, kIpv4 = 2;
    return kUdp | (destination.is_ipv4() ? kIpv4 : kIpv6);
  }
};

// Answers for a lossless link: has the other end taken every frame that was sent along this path, and had the time
// to answer? While it has not (it is stopped, or slow), its silence means nothing and counts as no retry.
class PathProbe {
 public:
  virtual ~PathProbe() = default;
  [[nodiscard]] virtual bool answered(const Path& path) const = 0;
};

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // A frame to fill for this path, or null when the link has no room now; then the caller's state
  // stays as it is and it asks again later. At most one frame is reserved at a time.
  virtual Frame* reserve(const Path& path) = 0;
  // Hands the reserved frame over.
  virtual void commit(Frame& frame) = 0;
  // Gives the reserved frame back unused.
  virtual void cancel(Frame&) {}
};

}  // namespace rrdma::objects
