// Analysis: combines the packets of one or more captures: connections, matching requests and responses,
// retransmissions, refusals and losses. Packets are stored as columns of numbers in order of time, so that a
// million of them can be passed to the page unchanged.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "inspect/sighting.h"

namespace rrdma::tools {

// Bits of PacketColumns::marks; the page uses the same numbers (inspector/src/capture.ts).
enum PacketMark : std::uint16_t {
  kMarkFromB = 1,          // sent by side B of its connection
  kMarkRequest = 2,        // otherwise a response
  kMarkEndsMessage = 4,    //
  kMarkAckRequest = 8,     //
  kMarkRepeat = 16,        // its PSN was sent before
  kMarkNak = 32,           //
  kMarkRnrNak = 64,        //
  kMarkLost = 128,         // sent but not received
  kMarkBad = 256,          // wrong ICRC or headers
  kMarkRemark = 512,       // the capture has a comment on it: an injected fault
  kMarkGap = 1024,         // preceding PSNs are missing: lost before the capture point
  kMarkCongestion = 2048,  // CNP, or ECN "congestion experienced"
  kMarkArrival = 4096      // seen only where it arrived: its sender was not captured
};

struct PacketColumns {
  std::vector<double> time_ns;   // since the first packet
  std::vector<float> travel_ns;  // until its arrival; NaN: no arrival seen
  std::vector<std::uint32_t> connection;
  std::vector<std::uint32_t> psn;
  std::vector<std::uint32_t> octets;   // payload
  std::vector<std::uint32_t> partner;  // the response of a request and vice versa, or kNoIndex
  std::vector<std::uint32_t> number;   // within its file
  std::vector<std::uint32_t> rkey;     // of a RETH or AtomicETH; 0: none
  std::vector<std::uint16_t> marks;
  std::vector<std::uint8_t> opcode;
  std::vector<std::uint8_t> syndrome;    // of an AETH
  std::vector<std::uint8_t> cm_message;  // 0: none

  [[nodiscard]] std::size_t size() const { return time_ns.size(); }
};

struct ConnectionEnd {
  wire::Gid address;
  std::uint32_t qpn = kNoIndex;  // kNoIndex: the capture does not reveal it
  std::string owner;             // "rping, process 12"; empty: unknown
  // Counters of the packets that this end sent.
  std::uint64_t packets = 0, octets = 0, messages = 0, repeats = 0, naks = 0, rnr_naks = 0, lost = 0,
                missing = 0;
};

struct Connection {
  wire::Transport transport = wire::Transport::kReliableConnection;
  std::array<ConnectionEnd, 2> ends;
  std::uint32_t first = 0;  // packet
  std::uint32_t mtu = 256;  // a lower bound, from the largest payload
  std::uint64_t bad = 0, congestion = 0;
  std::uint8_t hops_min = 255;  // TTL or hop limit where the packets were captured
};

// Connection manager messages of one handshake.
struct Handshake {
  std::array<wire::Gid, 2> addresses;
  std::vector<std::uint32_t> packets;
  std::array<std::uint32_t, 2> qpns{kNoIndex, kNoIndex};
  std::uint32_t initiator = 0;          // its communication ID
  std::uint32_t connection = kNoIndex;  // the resulting connection
};

// A problem, with all packets of one connection that show it.
struct CaptureFinding {
  enum class Kind : std::uint8_t {
    kRefused,
    kSilence,
    kFailed,
    kNotReady,
    kRejected,
    kSequence,
    kLost,
    kBad
  };
  Kind kind = Kind::kLost;
  std::uint32_t connection = kNoIndex;
  // NAK code, reason of a REJ, number of attempts of a silent request, or completion status of a failed one
  std::uint32_t code = 0;
  std::uint64_t count = 0;
  std::vector<std::uint32_t> packets;    // the first kFindingPacketsMax
  std::vector<std::uint32_t> explained;  // indices of explanations: the exact causes
  bool dies_of_hops = false;             // kSilence: the packets have TTL 1, and the first router drops them
};
inline constexpr std::size_t kFindingPacketsMax = 500;
inline constexpr std::size_t kFindingsMax = 2000;
inline constexpr std::size_t kHandshakesMax = 5000;

// The cost of a lost packet.
struct Repair {
  enum class By : std::uint8_t { kNothing, kNak, kProbe, kTimeout };
  std::uint32_t lost = kNoIndex;    // packet; for a gap, the one that shows it
  std::uint32_t repair = kNoIndex;  // the packet that arrived in its place; kNoIndex: none
  By by = By::kNothing;
  std::uint32_t delayed = 0;  // messages that waited for it
};
inline constexpr std::size_t kRepairsMax = 20'000;

// A call of rrdma::rpc.
struct RpcCall {
  std::uint32_t connection = kNoIndex;
  std::uint32_t call = 0;
  std::string method;
  std::string status = {};                              // empty: no reply was captured
  std::uint32_t asked = kNoIndex, answered = kNoIndex;  // packets
  std::uint64_t octets_asked = 0, octets_answered = 0;
  std::uint32_t items = 0;  // of its streams
};
inline constexpr std::size_t kRpcCallsMax = 20'000;

struct Analysis {
  std::int64_t first_ns = 0;  // since 1970
  PacketColumns columns;
  std::vector<Connection> connections;
  std::vector<Handshake> handshakes;
  std::vector<CaptureFinding> findings;  // most severe first
  std::vector<CapturedOctets> where;
  std::map<std::uint32_t, std::string> remarks;
  std::vector<CaptureEvent> events;  // by time, since 1970
  std::vector<CaptureExplanation> explanations;
  std::set<std::string> methods;  // paths of rpc methods that the captures name
  std::vector<Repair> repairs;    // by lost packet
  std::vector<RpcCall> rpc_calls;
  std::vector<CaptureFileNote> files;
  bool truncated = false;
};

[[nodiscard]] Analysis analyse(std::span<const CaptureInput> inputs, std::uint64_t packets_max);
// Adds the calls of rrdma::rpc. `methods`: further paths of methods, to show in place of their numbers.
void find_rpc_calls(Analysis& analysis, std::vector<std::string> methods);

// The steps of the analysis, in this order. Implemented in handshakes.cc, exchange.cc and causes/repairs.cc.
void group_handshakes(Analysis& analysis, std::span<const CmNote> notes);
// Finds retransmissions, gaps and responses. REQUIRES: connections and request marks are set.
void follow_exchanges(Analysis& analysis, std::span<const std::uint32_t> spans);
// The cost of losses. REQUIRES: all marks are set.
void find_repairs(Analysis& analysis);

}  // namespace rrdma::tools
