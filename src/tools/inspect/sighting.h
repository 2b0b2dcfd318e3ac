// Sighting: one RoCE packet as one capture saw it. A packet between two programs that are both captured is seen
// twice, where it leaves and where it arrives; sightings.cc puts such pairs together.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/octets.h"
#include "tools/decode/connections.h"
#include "wire/link_type.h"
#include "wire/packet_dissection.h"
#include "wire/pcapng_format.h"

namespace rrdma::tools {

inline constexpr std::uint32_t kNoIndex = 0xffffffff;

// Where the octets of a sighting lie, to look at them again.
struct CapturedOctets {
  const std::uint8_t* data = nullptr;
  std::uint32_t captured = 0;
  std::uint32_t original = 0;
  wire::LinkType link = wire::LinkType::kEthernet;
  std::uint16_t file = 0;
};

struct Sighting {
  std::int64_t time_ns = 0;       // since 1970, with the clock offset of its file
  std::uint32_t flow = kNoIndex;  // none: its headers cannot be read
  std::uint32_t psn = 0;
  std::uint32_t icrc = 0;
  std::uint32_t octets = 0;  // payload
  std::uint32_t number = 0;  // in its file, counting from 1
  std::uint32_t span = 1;    // octets that a READ asks for, else 1
  std::uint8_t opcode = 0;
  std::uint8_t syndrome = 0;
  std::uint8_t cm_message = 0;  // attribute of a message of the connection manager
  wire::PacketDirection direction = wire::PacketDirection::kUnknown;
  bool bad = false;
  bool ack_request = false;
  bool congestion = false;  // ECN says so
  bool remarked = false;    // has a comment
  CapturedOctets where;
};

// Packets from one address to a queue pair at another; the sender's where a datagram names it.
struct Flow {
  PacketEnds ends;
  std::uint32_t destination = 0;
  std::uint32_t datagram_source = kNoIndex;
  wire::Transport transport = wire::Transport::kReliableConnection;
};

// A message of the connection manager: which packet, and what it says of the two queue pairs.
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
  std::int64_t offset_ns = 0;  // what was added to its times
  std::string fault;           // why its reading ended early; empty: it did not
};

// Something that happened and is no packet: a fault on purpose at a port, a queue pair, a call.
struct CaptureEvent {
  std::int64_t time_ns = 0;  // as of a Sighting
  std::string text;
  std::uint16_t file = 0;
};

struct Sightings {
  std::vector<Sighting> list;  // by time
  std::vector<Flow> flows;
  std::vector<CmNote> cm_notes;  // by time
  std::map<std::uint32_t, std::string> remarks;
  std::vector<CaptureEvent> events;  // by time
  std::vector<CaptureFileNote> files;
  Connections connections;
  bool truncated = false;  // there are more packets than the limit allowed
};

struct CaptureInput {
  std::string name;
  Octets octets;
};

// Reads all files, up to `packets_max` packets. A file that ends within a packet gives those before it.
[[nodiscard]] Sightings read_sightings(std::span<const CaptureInput> inputs, std::uint64_t packets_max);

// What makes two sightings those of one packet: the ICRC covers headers and payload.
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

// Takes the differences of the clocks out of the times of several files. clocks.cc
void align_clocks(Sightings& sightings);

// What becomes of a sighting: of two of one packet the earlier stands for it.
struct Merged {
  std::vector<std::uint32_t> packets;     // sightings that stand for packets, by time
  std::vector<std::uint32_t> arrival_of;  // for each of them: the sighting of its arrival, or none
  std::vector<bool> lost;                 // it left, and its arrival would have been seen
};
[[nodiscard]] Merged merge_sightings(Sightings& sightings);

}  // namespace rrdma::tools
