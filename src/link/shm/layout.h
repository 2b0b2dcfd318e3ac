// The layout of a channel in shared memory: both processes map it, and neither trusts it.
//
//   channel   = ChannelHeader, DirectionControl[2], AnswerRow[2][kAnswerRows], (page) ring[0], (page) ring[1]
//   ring      = records, each on a multiple of kUnitOctets, never across the end of the ring
//   record    = RecordHead, [PeerRoute], transport headers, [AckRecord], payload   (a skip: RecordHead alone)
//
// A position counts bytes since the channel was created; its low bits are the offset in the ring. A record at
// position p is present when its `ready` word equals nonce + p / kUnitOctets. No stale record can hold that
// word, and stale payload holds it with probability 2^-64. So a small frame costs one cache line, and neither
// side writes an index that the other polls. A skip sends the reader to the start of the next lap. `consumed`
// only limits the writer.
//
// Direction 0 carries frames of the process that created the channel, direction 1 those of the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wire/gid.h"
#include "wire/opcode.h"

namespace rrdma::link {

inline constexpr std::uint64_t kChannelMagic = 0x314c484352535252;  // "RRSRCHL1", little-endian
inline constexpr std::uint32_t kChannelVersion = 4;
inline constexpr std::size_t kUnitOctets = 64;
inline constexpr std::size_t kChannelPage = 65536;  // the largest page size of arm64
inline constexpr std::uint32_t kShmTrainOctetsMax = 64 * 1024;
inline constexpr std::uint32_t kShmFrameOctetsMax = 4096;  // payload of a frame that is not a train
inline constexpr std::uint32_t kRingOctetsMin = 256 * 1024;
inline constexpr std::uint32_t kRingOctetsMax = 16 * 1024 * 1024;

struct ChannelHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t ring_octets;  // of each direction; a power of two
  std::uint64_t nonce[2];     // for each direction: the ready word of position 0
  std::uint8_t reserved[96];
};
static_assert(sizeof(ChannelHeader) == 128);

// Each cache line has one writer, so a flag that is read for every burst stays in the cache.
struct DirectionControl {
  alignas(128) std::atomic<std::uint64_t> consumed;  // by the reader: everything before it may be overwritten
  std::atomic<std::uint64_t> served;  // by the reader: it has sent all answers to everything before it
  alignas(128) std::atomic<std::uint32_t> armed;    // the reader sleeps: ring its doorbell after writing
  std::atomic<std::uint32_t> attentive;             // the reader polls: no need to check `armed`
  alignas(128) std::atomic<std::uint32_t> starved;  // the writer sleeps: ring its doorbell after consuming
  alignas(128) std::atomic<
      std::uint64_t> in_use;  // by the writer: odd while it accesses the reader's memory (direct_table.h)
};
static_assert(sizeof(DirectionControl) == 512);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

// The last answer of a QP, of the side that writes it; the other side reads it when this one is gone. A row
// stays readable after its QP is destroyed, until another QP takes it.
struct AnswerRow {
  std::atomic<std::uint32_t> qpn;  // 0: none yet
  std::uint32_t reserved;
  std::atomic<std::uint64_t> answer;  // wire::LastAnswer
};
static_assert(sizeof(AnswerRow) == 16);
inline constexpr std::size_t kAnswerRows = 2000;

struct RecordHead {
  std::uint64_t ready;
  std::uint32_t payload_octets;
  std::uint8_t header_octets;
  std::uint8_t flags;
  std::uint16_t reserved;
};
static_assert(sizeof(RecordHead) == 16);

enum RecordFlag : std::uint8_t {
  kRecordSkip = 1u << 0,       // no frame: continue at the start of the next lap
  kRecordRoute = 1u << 1,      // a PeerRoute follows; otherwise that of the previous record applies
  kRecordCorrupted = 1u << 2,  // fault injection corrupted this frame: a NIC would see a wrong ICRC
  kRecordAck = 1u << 3,        // an AckRecord follows the transport headers
};
inline constexpr std::uint8_t kRecordFlags = kRecordSkip | kRecordRoute | kRecordCorrupted | kRecordAck;

// An acknowledgement that the record carries along, for the QP that its request is for. A reply needs one
// record instead of two.
struct AckRecord {
  std::uint32_t psn;
  std::uint32_t aeth;  // syndrome and MSN, as in the header
};
static_assert(sizeof(AckRecord) == 8);

// The contents of a packet's IP header, from the sender's view.
struct PeerRoute {
  wire::Gid source;
  wire::Gid destination;
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint16_t reserved = 0;
  friend bool operator==(const PeerRoute&, const PeerRoute&) = default;
};
static_assert(sizeof(PeerRoute) == 40);

// Offset of the payload in a record; `header_octets` includes an AckRecord. Small payloads share the cache
// line of the headers. Large ones start on a line of their own, so that copies are aligned on both sides.
constexpr std::size_t payload_offset(bool has_route, std::size_t header_octets, std::size_t payload_octets) {
  const std::size_t end = sizeof(RecordHead) + (has_route ? sizeof(PeerRoute) : 0) + header_octets;
  return payload_octets > 2 * kUnitOctets ? (end + kUnitOctets - 1) & ~(kUnitOctets - 1) : end;
}
constexpr std::size_t record_octets(bool has_route, std::size_t header_octets, std::size_t payload_octets) {
  return (payload_offset(has_route, header_octets, payload_octets) + payload_octets + kUnitOctets - 1) &
         ~(kUnitOctets - 1);
}
inline constexpr std::size_t kRecordOctetsMax =
    record_octets(true, wire::kHeaderOctetsMax + sizeof(AckRecord), kShmTrainOctetsMax);
// The reader notifies a sleeping writer at least once for each quarter of the ring. The remainder must hold a
// frame.
static_assert(kRecordOctetsMax <= kRingOctetsMin / 2);

constexpr std::size_t controls_offset() { return sizeof(ChannelHeader); }
constexpr std::size_t answers_offset(unsigned side) {
  return controls_offset() + 2 * sizeof(DirectionControl) + side * kAnswerRows * sizeof(AnswerRow);
}
constexpr std::size_t ring_offset(unsigned direction, std::size_t ring_octets) {
  return kChannelPage + direction * ring_octets;
}
constexpr std::size_t channel_octets(std::size_t ring_octets) { return kChannelPage + 2 * ring_octets; }
static_assert(answers_offset(2) <= kChannelPage);

}  // namespace rrdma::link
