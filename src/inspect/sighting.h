// Sighting: one RoCE packet in one capture. A packet between two captured programs is seen twice, at its
// departure and at its arrival; sightings.cc matches such pairs.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/octets.h"
#include "dissection/packet_dissection.h"
#include "inspect/causes/explanations.h"
#include "tools/decode/connections.h"
#include "wire/link_type.h"
#include "wire/pcapng_format.h"

namespace rrdma::tools {

inline constexpr std::uint32_t kNoIndex = 0xffffffff;

// The bytes of a sighting in the file, for decoding them again.
struct CapturedOctets {
  const std::uint8_t* data = nullptr;
  std::uint32_t captured = 0;
  std::uint32_t original = 0;
  wire::LinkType link = wire::LinkType::kEthernet;
  std::uint16_t file = 0;
};

struct Sighting {
  std::int64_t time_ns = 0;       // since 1970, corrected by the clock offset of its file
  std::uint32_t flow = kNoIndex;  // kNoIndex: its headers are unreadable
  std::uint32_t psn = 0;
  std::uint32_t icrc = 0;
  std::uint32_t octets = 0;  // payload
  std::uint32_t number = 0;  // within its file, from 1
  std::uint32_t span = 1;    // bytes that a READ requests, otherwise 1
  std::uint8_t opcode = 0;
  std::uint8_t syndrome = 0;
  std::uint32_t rkey = 0;       // of a RETH or AtomicETH; 0: none
  std::uint8_t cm_message = 0;  // attribute of a connection manager message
  wire::PacketDirection direction = wire::PacketDirection::kUnknown;
  std::uint8_t hops = 64;  // TTL or hop limit
  bool bad = false;
  bool ack_request = false;
  bool congestion = false;  // ECN is set
  bool remarked = false;    // has a comment
  CapturedOctets where;
};

// Packets from one address to a queue pair at another, with the source queue pair if a datagram names it.
struct Flow {
  PacketEnds ends;
  std::uint32_t destination = 0;
  std::uint32_t datagram_source = kNoIndex;
  wire::Transport transport = wire::Transport::kReliableConnection;
};

// A message of the connection manager: its packet and the queue pairs that it names.
struct CmNote {
  std::uint32_t sighting = 0;  // later: packet
  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;  // 0: not known yet
  std::uint32_t qpn = 0;        // of the sender, in REQ and REP
  std::uint32_t reason = 0;     // of a REJ, or status of a SIDR_REP
};

struct CaptureFileNote {
  std::string name;
  std::uint64_t packets = 0;
  std::uint64_t foreign = 0;
  std::uint64_t left_out = 0;
  std::int64_t offset_ns = 0;  // added to its times
  std::string fault;           // why reading ended early; empty: it did not
};

// An event that is not a packet: an injected fault at a port, a queue pair or a call.
struct CaptureEvent {
  std::int64_t time_ns = 0;  // as in Sighting
  std::string text;
  std::uint16_t file = 0;
};

struct Sightings {
  std::vector<Sighting> list;  // by time
  std::vector<Flow> flows;
  std::vector<CmNote> cm_notes;  // by time
  std::map<std::uint32_t, std::string> remarks;
  std::vector<CaptureEvent> events;  // by time
  std::vector<CaptureExplanation> explanations;
  std::set<std::string> methods;  // paths of rpc methods that the captures name
  std::map<std::pair<wire::Gid, std::uint32_t>, std::string>
      owners;  // address and queue pair: "rping, process 12"
  std::vector<CaptureFileNote> files;
  Connections connections;
  bool truncated = false;  // the files have more packets than the limit
};

struct CaptureInput {
  std::string name;
  Octets octets;
};

// Reads all files, up to `packets_max` packets. A file that ends within a packet yields the packets before
// it.
[[nodiscard]] Sightings read_sightings(std::span<const CaptureInput> inputs, std::uint64_t packets_max);

// Identifies a packet, so that two sightings can be matched. The ICRC covers headers and payload.
struct PacketIdentity {
  std::uint32_t flow, icrc, psn, opcode;
  friend bool operator==(const PacketIdentity&, const PacketIdentity&) = default;
};
struct PacketIdentityHash {
  std::size_t operator()(const PacketIdentity& identity) const {
    std::uint64_t hash = (std::uint64_t{identity.flow} << 32 | identity.icrc) * 0x9e3779b97f4a7c15u;
    hash ^= (std::uint64_t{identity.psn} << 8 | identity.opcode) * 0xc2b2ae3d27d4eb4fu;
    return hash ^ hash >> 29;
  }
};
[[nodiscard]] inline PacketIdentity identity_of(const Sighting& seen) {
  return {seen.flow, seen.icrc, seen.psn, seen.opcode};
}

// Corrects the times of several files for the offsets of their clocks (clocks.cc).
void align_clocks(Sightings& sightings);

// The result of matching. Of two sightings of a packet, the earlier one represents it.
struct Merged {
  std::vector<std::uint32_t> packets;     // sightings that represent packets, by time
  std::vector<std::uint32_t> arrival_of;  // for each of them: the sighting of its arrival, or kNoIndex
  std::vector<bool> lost;                 // sent, and its arrival would have been seen
};
[[nodiscard]] Merged merge_sightings(Sightings& sightings);

}  // namespace rrdma::tools
