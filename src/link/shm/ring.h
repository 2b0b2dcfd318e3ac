// RingWriter and RingReader: the two ends of one direction of a channel. Each keeps its position in its own
// memory. From shared memory a writer trusts only `consumed`, and a reader only what it has copied out and
// checked. An impossible value permanently breaks the end that saw it: there is no way to find the next
// record, and no honest peer writes one.
//
// The memory that a ring touches depends on its use, not on its size. The writer turns back at a soft limit
// while the reader keeps up, and raises the limit only if it would have to wait otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/octets.h"
#include "link/shm/channel.h"
#include "link/shm/layout.h"
#include "objects/frame.h"

namespace rrdma::link {

enum class WriteVerdict : std::uint8_t { kWritten, kSourceFault };

class RingWriter {
 public:
  explicit RingWriter(const ShmChannel& channel);

  // True if a frame with this much payload fits now, wherever the ring's end is.
  [[nodiscard]] bool has_room(std::size_t payload_octets) {
    needed_ = record_octets(true, wire::kHeaderOctetsMax + sizeof(AckRecord), payload_octets);
    return fits(needed_, free_octets()) || has_room_after_refresh();
  }
  // Copies the frame into the ring and publishes it. Publishes nothing if a span is no longer mapped.
  // REQUIRES: has_room() returned true for at least this payload since the last write.
  WriteVerdict write(const objects::Frame& frame);

  [[nodiscard]] bool broken() const { return broken_; }
  // has_room() failed since the flag was cleared.
  [[nodiscard]] bool starved() const { return starved_; }
  void clear_starved() { starved_ = false; }
  // True if the last refused frame would fit now. REQUIRES: a full barrier since the peer was told to ring.
  [[nodiscard]] bool room_came();
  // The peer has answered: it reads each record as it comes.
  void note_answer() { unanswered_ = 0; }
  // The reader has taken everything that was written. It wrote its answers before this became true.
  [[nodiscard]] bool served() const { return control_->served.load(std::memory_order_acquire) == head_; }
  [[nodiscard]] std::uint64_t position() const { return head_; }

 private:
  [[nodiscard]] std::size_t free_octets() const {
    return size_ - static_cast<std::size_t>(head_ - consumed_);
  }
  [[nodiscard]] std::size_t offset() const { return static_cast<std::size_t>(head_) & (size_ - 1); }
  [[nodiscard]] bool fits(std::size_t octets, std::size_t free) const {
    const std::size_t to_end = size_ - offset();
    return octets <= to_end ? octets <= free : to_end + octets <= free;
  }
  bool has_room_after_refresh();
  // The reader knows the route of this path.
  [[nodiscard]] bool knows_route(const objects::Path& path) const;
  void refresh();
  void turn_back_if_wanted(std::size_t octets);
  void publish(std::uint8_t* record, RecordHead head);

  std::uint8_t* ring_;
  DirectionControl* control_;
  std::size_t size_;
  std::uint64_t nonce_;
  std::uint64_t head_ = 0;
  std::uint64_t consumed_ = 0;  // as last seen
  std::size_t soft_limit_;
  std::size_t needed_ = 0;        // by the last has_room()
  PeerRoute route_{};             // as the reader knows it
  std::uint32_t unanswered_ = 0;  // records since the peer last wrote one
  bool broken_ = false;
  bool starved_ = false;
};

enum class ReadVerdict : std::uint8_t { kNothing, kRecord, kBroken };

// One record as the reader took it from shared memory. Head, route and headers are copies. The payload is
// still shared and the peer may change it meanwhile, so it is read once and never validated.
struct RecordView {
  RecordHead head;
  std::array<std::uint8_t, wire::kHeaderOctetsMax> headers;
  AckRecord ack;  // with kRecordAck
  Octets payload;
};

class RingReader {
 public:
  explicit RingReader(const ShmChannel& channel);

  [[nodiscard]] bool has_record() const { return __atomic_load_n(ready_, __ATOMIC_ACQUIRE) == expected_; }
  // The next record. It stays in the ring until release().
  ReadVerdict read(RecordView& record);
  // Returns the record's room to the writer.
  void release();
  // Requests the cache lines behind the next record. REQUIRES: has_record(), so the writer is ahead.
  // Otherwise this would take away a line that the writer is about to fill.
  void fetch_ahead() const;
  // All answers to released records have been sent.
  void tell_served() { control_->served.store(position_, std::memory_order_release); }
  // True if the writer waits for room and must be woken. Costs a barrier only once for each quarter of the
  // ring: a writer that knows of all but the last quarter has room for any frame.
  [[nodiscard]] bool writer_waits() { return position_ - told_ >= size_ / 4 && tell_writer(); }

  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] const PeerRoute& route() const { return route_; }
  [[nodiscard]] std::uint64_t position() const { return position_; }

 private:
  bool take(RecordView& record);
  void advance(std::size_t octets);
  bool tell_writer();

  const std::uint64_t* ready_ = nullptr;  // of the next record
  std::uint64_t expected_ = 0;
  const std::uint8_t* ring_;
  DirectionControl* control_;
  std::size_t size_;
  std::uint64_t nonce_;
  std::uint64_t position_ = 0;
  std::uint64_t told_ = 0;  // position at the last full barrier
  std::size_t record_ = 0;  // size of the record that read() returned
  PeerRoute route_{};
  bool broken_ = false;
};

}  // namespace rrdma::link
