// RingWriter and RingReader: the two ends of one direction of a channel. Each keeps its position in its
// own memory; from shared memory a writer believes only `consumed`, and a reader only what it has
// copied out and checked. A value that cannot be right breaks the end that saw it, for good: there is no
// way to find the next record, and no honest peer writes one.
//
// Memory that a ring touches is bounded by use, not by its size: the writer turns back at a soft limit
// while the reader keeps up, and raises the limit only when it would have to wait otherwise.
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

  // Whether a frame with this much payload fits now, wherever the ring's end is.
  [[nodiscard]] bool has_room(std::size_t payload_octets) {
    needed_ = record_octets(true, wire::kHeaderOctetsMax + sizeof(AckRecord), payload_octets);
    return fits(needed_, free_octets()) || has_room_after_refresh();
  }
  // Copies the frame into the ring and publishes it. A span that is no longer mapped: nothing is published.
  // REQUIRES: has_room() said yes for at least this payload since the last write.
  WriteVerdict write(const objects::Frame& frame);

  [[nodiscard]] bool broken() const { return broken_; }
  // Since the flag was cleared: has_room() said no.
  [[nodiscard]] bool starved() const { return starved_; }
  void clear_starved() { starved_ = false; }
  // REQUIRES: a full barrier since the peer was told to ring. Whether what was refused last would fit now.
  [[nodiscard]] bool room_came();
  // The reader has taken everything that was written, and its answers were written before this was true.
  [[nodiscard]] bool served() const { return control_->served.load(std::memory_order_acquire) == head_; }
  [[nodiscard]] std::uint64_t position() const { return head_; }
  [[nodiscard]] std::size_t soft_limit() const { return soft_limit_; }

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
  std::size_t needed_ = 0;  // what the last has_room() asked for
  PeerRoute route_{};       // what the reader believes
  bool broken_ = false;
  bool starved_ = false;
};

enum class ReadVerdict : std::uint8_t { kNothing, kRecord, kBroken };

// One record as the reader took it from shared memory. Head, route and headers are copies; the payload
// is still shared: the peer may change it while it is read, so it is read once and never judged.
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
  // The next record. It stays where it is until release().
  ReadVerdict read(RecordView& record);
  // Gives the room of the record back.
  void release();
  // All that was released has its answers, as far as it gets any.
  void tell_served() { control_->served.store(position_, std::memory_order_release); }
  // Whether the writer waits for room and must be woken. Costs a barrier once for each quarter of the
  // ring only: a writer that knows of all but the last quarter has room for any frame.
  [[nodiscard]] bool writer_waits() { return position_ - told_ >= size_ / 4 && tell_writer(); }

  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] const PeerRoute& route() const { return route_; }
  [[nodiscard]] const std::uint64_t* ready_word() const { return ready_; }
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
  std::size_t record_ = 0;  // octets of the record that read() gave
  PeerRoute route_{};
  bool broken_ = false;
};

}  // namespace rrdma::link
