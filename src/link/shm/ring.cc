#include "link/shm/ring.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/guarded_copy.h"
#include "wire/bth_words.h"

namespace rrdma::link {
namespace {

constexpr std::size_t kSoftLimitStart = 96 * 1024;
// How far ahead of the next record a writer requests the ring's cache lines, which the reader holds since the
// last lap. It does so after a few records without an answer: a reader that waits for each record checks the
// line behind it, and would have to fetch it back.
constexpr std::size_t kClaimedAhead = 3 * kUnitOctets;
constexpr std::uint32_t kStreamBegins = 4;
// And a reader that has fallen behind.
constexpr std::size_t kFetchedAhead = 2 * kUnitOctets;

// Requests a cache line for writing. __builtin_prefetch() requests it only for reading on plain x86-64.
inline void claim_line(const std::uint8_t* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1);
#endif
}

// A call of memcpy() costs more than the copy of a small message.
inline void copy_payload(std::uint8_t* to, const std::uint8_t* from, std::size_t length) {
  if (length < 8 || length > 16) {
    std::memcpy(to, from, length);
    return;
  }
  const auto last = load_native<std::uint64_t>(from + length - 8);
  store_native(to, load_native<std::uint64_t>(from));
  store_native(to + length - 8, last);
}

}  // namespace

RingWriter::RingWriter(const ShmChannel& channel)
    : ring_(channel.ring(channel.own_direction())),
      control_(&channel.control(channel.own_direction())),
      size_(channel.ring_octets()),
      nonce_(channel.nonce(channel.own_direction())),
      soft_limit_(std::min(kSoftLimitStart, size_)) {}

void RingWriter::refresh() {
  const std::uint64_t seen = control_->consumed.load(std::memory_order_acquire);
  // `consumed` may only grow, never beyond our position, and records end on units.
  if (seen - consumed_ > head_ - consumed_ || seen % kUnitOctets != 0) {
    broken_ = true;
    return;
  }
  consumed_ = seen;
}

bool RingWriter::has_room_after_refresh() {
  refresh();
  if (!broken_ && fits(needed_, free_octets())) return true;
  starved_ = true;
  return false;
}

bool RingWriter::room_came() {
  refresh();
  return broken_ || fits(needed_, free_octets());
}

void RingWriter::publish(std::uint8_t* record, RecordHead head) {
  head.ready = 0;
  std::memcpy(record + sizeof head.ready, reinterpret_cast<const std::uint8_t*>(&head) + sizeof head.ready,
              sizeof head - sizeof head.ready);
  __atomic_store_n(reinterpret_cast<std::uint64_t*>(record), nonce_ + head_ / kUnitOctets, __ATOMIC_RELEASE);
}

// Turns back to the start of the ring if the record does not fit before the end. Also turns back if the
// record would raise the soft limit although the start has room for it, and for the largest record after it.
void RingWriter::turn_back_if_wanted(std::size_t octets) {
  const std::size_t at = offset();
  if (at + octets <= soft_limit_) return;
  const std::size_t to_end = size_ - at;
  if (octets <= to_end) {
    refresh();
    if (broken_ || to_end + octets + kRecordOctetsMax > free_octets()) {
      soft_limit_ = std::min(size_, (at + octets + kChannelPage - 1) & ~(kChannelPage - 1));
      return;
    }
  }
  publish(ring_ + at, {.flags = kRecordSkip});
  head_ += to_end;
}

// Compares the fields: a PeerRoute that was just built would be read before its stores have ended.
bool RingWriter::knows_route(const objects::Path& path) const {
  return path.local == route_.source && path.remote == route_.destination &&
         path.flow_label == route_.flow_label && path.traffic_class == route_.traffic_class &&
         path.hop_limit == route_.hop_limit;
}

WriteVerdict RingWriter::write(const objects::Frame& frame) {
  const bool has_route = !knows_route(*frame.path);
  const std::size_t header_octets = frame.header_octets + (frame.ack.present ? sizeof(AckRecord) : 0);
  const std::size_t octets = record_octets(has_route, header_octets, frame.payload_octets);
  RRDMA_ASSERT(octets <= needed_);
  turn_back_if_wanted(octets);

  std::uint8_t* record = ring_ + offset();
  std::uint8_t* to = record + payload_offset(has_route, header_octets, frame.payload_octets);
  for (std::size_t i = 0; i < frame.span_count; ++i) {
    const objects::PayloadSpan& span = frame.spans[i];
    // The guard costs as much as the copy of a small message.
    if (frame.own_payload)
      copy_payload(to, span.data, span.length);
    else if (!guarded_copy(to, span.data, span.length))
      return WriteVerdict::kSourceFault;
    to += span.length;
  }
  std::uint8_t* headers = record + sizeof(RecordHead);
  if (has_route) {
    route_ = {.source = frame.path->local,
              .destination = frame.path->remote,
              .flow_label = frame.path->flow_label,
              .traffic_class = frame.path->traffic_class,
              .hop_limit = frame.path->hop_limit};
    std::memcpy(headers, &route_, sizeof route_);
    headers += sizeof route_;
  }
  wire::copy_headers(headers, frame.header.data(), frame.header_octets);
  if (frame.ack.present) {
    const AckRecord ack{.psn = frame.ack.psn.value,
                        .aeth = std::uint32_t{frame.ack.aeth.syndrome} << 24 | frame.ack.aeth.msn};
    std::memcpy(headers + frame.header_octets, &ack, sizeof ack);
  }
  const auto flags = static_cast<std::uint8_t>((has_route ? kRecordRoute : 0) |
                                               (frame.corrupt_bit >= 0 ? kRecordCorrupted : 0) |
                                               (frame.ack.present ? kRecordAck : 0));
  publish(record,
          {.payload_octets = frame.payload_octets, .header_octets = frame.header_octets, .flags = flags});
  head_ += octets;
  if (++unanswered_ > kStreamBegins)
    claim_line(ring_ + ((static_cast<std::size_t>(head_) + kClaimedAhead) & (size_ - 1)));
  return WriteVerdict::kWritten;
}

RingReader::RingReader(const ShmChannel& channel)
    : ring_(channel.ring(1 - channel.own_direction())),
      control_(&channel.control(1 - channel.own_direction())),
      size_(channel.ring_octets()),
      nonce_(channel.nonce(1 - channel.own_direction())) {
  advance(0);
}

void RingReader::advance(std::size_t octets) {
  position_ += octets;
  ready_ = reinterpret_cast<const std::uint64_t*>(ring_ + (position_ & (size_ - 1)));
  expected_ = nonce_ + position_ / kUnitOctets;
}

// Copies the record's head, route and headers, and checks that it lies within the ring. False if not.
bool RingReader::take(RecordView& record) {
  const auto* at = reinterpret_cast<const std::uint8_t*>(ready_);
  const std::size_t to_end = size_ - static_cast<std::size_t>(at - ring_);
  std::memcpy(&record.head, at, sizeof record.head);
  const RecordHead& head = record.head;
  if ((head.flags & ~kRecordFlags) != 0) return false;
  if ((head.flags & kRecordSkip) != 0) {
    record_ = to_end;
    return true;
  }
  if (head.header_octets > wire::kHeaderOctetsMax || head.payload_octets > kShmTrainOctetsMax) return false;
  const bool has_route = (head.flags & kRecordRoute) != 0;
  const bool has_ack = (head.flags & kRecordAck) != 0;
  const std::size_t header_octets = head.header_octets + (has_ack ? sizeof(AckRecord) : 0);
  record_ = record_octets(has_route, header_octets, head.payload_octets);
  if (record_ > to_end) return false;
  const std::uint8_t* headers = at + sizeof head;
  if (has_route) {
    std::memcpy(&route_, headers, sizeof route_);
    headers += sizeof route_;
  }
  // Copy a constant length if possible. The bytes behind the headers may already belong to the writer.
  if (record.headers.size() <= to_end - static_cast<std::size_t>(headers - at)) {
    std::memcpy(record.headers.data(), headers, record.headers.size());
  } else {
    std::memcpy(record.headers.data(), headers, head.header_octets);
  }
  if (has_ack) std::memcpy(&record.ack, headers + head.header_octets, sizeof record.ack);
  record.payload = {at + payload_offset(has_route, header_octets, head.payload_octets), head.payload_octets};
  return true;
}

ReadVerdict RingReader::read(RecordView& record) {
  // After a skip comes a record at the start of the ring, which cannot be a skip.
  for (int lap = 0; lap < 2; ++lap) {
    if (broken_) return ReadVerdict::kBroken;
    if (!has_record()) return ReadVerdict::kNothing;
    if (!take(record) || (lap > 0 && (record.head.flags & kRecordSkip) != 0)) {
      broken_ = true;
      return ReadVerdict::kBroken;
    }
    if ((record.head.flags & kRecordSkip) == 0) return ReadVerdict::kRecord;
    release();
  }
  return ReadVerdict::kNothing;
}

void RingReader::release() {
  advance(record_);
  control_->consumed.store(position_, std::memory_order_release);
}

void RingReader::fetch_ahead() const {
  __builtin_prefetch(ring_ + ((static_cast<std::size_t>(position_) + kFetchedAhead) & (size_ - 1)));
}

bool RingReader::tell_writer() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  told_ = position_;
  return control_->starved.load(std::memory_order_relaxed) != 0 && control_->starved.exchange(0) != 0;
}

}  // namespace rrdma::link
