// Analysis: what the packets of one or more captures say together: who talks to whom, which answer belongs to
// which request, what was sent again, refused, lost. Packets are columns of numbers, by time, so that a
// million of them can be handed to the page as they are.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/inspect/sighting.h"

namespace rrdma::tools {

// Bits of PacketColumns::marks; the page knows the same numbers (inspector/src/capture.ts).
enum PacketMark : std::uint16_t {
  kMarkFromB = 1,         // the second side of its connection sent it
  kMarkRequest = 2,       // else an answer
  kMarkEndsMessage = 4,   //
  kMarkAckRequest = 8,    //
  kMarkRepeat = 16,       // its PSN is not beyond those sent before
  kMarkNak = 32,          //
  kMarkRnrNak = 64,       //
  kMarkLost = 128,        // left, and did not arrive
  kMarkBad = 256,         // wrong ICRC or headers
  kMarkRemark = 512,      // the capture has a comment on it: a fault that was injected
  kMarkGap = 1024,        // PSNs before it are missing: lost before they could be captured
  kMarkCongestion = 2048  // CNP, or ECN says "congestion experienced"
};

struct PacketColumns {
  std::vector<double> time_ns;   // since the first packet
  std::vector<float> travel_ns;  // until it arrived; NaN: not seen to arrive
  std::vector<std::uint32_t> connection;
  std::vector<std::uint32_t> psn;
  std::vector<std::uint32_t> octets;   // payload
  std::vector<std::uint32_t> partner;  // of a request its answer, of an answer its request; or kNoIndex
  std::vector<std::uint32_t> number;   // in its file
  std::vector<std::uint16_t> marks;
  std::vector<std::uint8_t> opcode;
  std::vector<std::uint8_t> syndrome;    // of an AETH
  std::vector<std::uint8_t> cm_message;  // 0: none

  [[nodiscard]] std::size_t size() const { return time_ns.size(); }
};

struct ConnectionEnd {
  wire::Gid address;
  std::uint32_t qpn = kNoIndex;  // none: the capture does not tell
  // What this end sent.
  std::uint64_t packets = 0, octets = 0, messages = 0, repeats = 0, naks = 0, rnr_naks = 0, lost = 0,
                missing = 0;
};

struct Connection {
  wire::Transport transport = wire::Transport::kReliableConnection;
  std::array<ConnectionEnd, 2> ends;
  std::uint32_t first = 0;  // packet
  std::uint32_t mtu = 256;  // at least; by the largest payload
  std::uint64_t bad = 0, congestion = 0;
};

// Messages of the connection manager that belong together.
struct Handshake {
  std::array<wire::Gid, 2> addresses;
  std::vector<std::uint32_t> packets;
  std::array<std::uint32_t, 2> qpns{kNoIndex, kNoIndex};
  std::uint32_t initiator = 0;          // its communication ID
  std::uint32_t connection = kNoIndex;  // that it made
};

// Something that went wrong, with all packets of one connection that show it.
struct CaptureFinding {
  enum class Kind : std::uint8_t { kRefused, kSilence, kNotReady, kRejected, kSequence, kLost, kBad };
  Kind kind = Kind::kLost;
  std::uint32_t connection = kNoIndex;
  std::uint32_t code = 0;  // NAK code, reason of a REJ; how often the request of a silence was sent
  std::uint64_t count = 0;
  std::vector<std::uint32_t> packets;  // the first kFindingPacketsMax
};
inline constexpr std::size_t kFindingPacketsMax = 500;
inline constexpr std::size_t kFindingsMax = 2000;
inline constexpr std::size_t kHandshakesMax = 5000;

struct Analysis {
  std::int64_t first_ns = 0;  // since 1970
  PacketColumns columns;
  std::vector<Connection> connections;
  std::vector<Handshake> handshakes;
  std::vector<CaptureFinding> findings;  // the gravest first
  std::vector<CapturedOctets> where;
  std::map<std::uint32_t, std::string> remarks;
  std::vector<CaptureEvent> events;  // by time, since 1970
  std::vector<CaptureFileNote> files;
  bool truncated = false;
};

[[nodiscard]] Analysis analyse(std::span<const CaptureInput> inputs, std::uint64_t packets_max);

// The parts of it, in this order. handshakes.cc, exchange.cc
void group_handshakes(Analysis& analysis, std::span<const CmNote> notes);
// Repeats, gaps, answers; needs connections and marks of requests.
void follow_exchanges(Analysis& analysis, std::span<const std::uint32_t> spans);

}  // namespace rrdma::tools
