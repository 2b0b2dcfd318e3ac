// ResponseCache: the READs, ATOMICs, FLUSHes and ATOMIC WRITEs that a responder has accepted, in PSN order.
// An entry has two uses: it queues a response that is still to be sent, and it remembers the response for
// duplicate requests. The cache holds max_dest_rd_atomic entries. A new entry replaces the oldest, which must
// have been sent.
#pragma once

#include <cstdint>
#include <memory>

#include "base/assert.h"
#include "transport/qp/read_parts.h"
#include "wire/numbers.h"
#include "wire/opcode.h"

namespace rrdma::transport {

struct Response {
  wire::Kind kind = wire::Kind::kUnknown;  // kReadRequest, kAtomic, kFlush, kAtomicWrite
  bool pending = false;                    // part of it is still to be sent
  bool replaying = false;                  // answers a duplicate: it was sent before
  bool sending = false;                    // a READ whose first part is partly sent
  wire::Psn first_psn;
  std::uint32_t packet_count = 1;  // PSNs that the response takes
  std::uint32_t msn = 0;
  wire::RKey rkey;
  std::uint64_t address = 0;  // of first_psn
  std::uint32_t length = 0;
  ReadParts parts;             // READ: what is still to be sent
  std::uint64_t original = 0;  // ATOMIC: the value before the operation

  [[nodiscard]] bool covers(wire::Psn psn) const {
    const std::int32_t distance = psn.since(first_psn);
    return kind != wire::Kind::kUnknown && distance >= 0 &&
           distance < static_cast<std::int32_t>(packet_count);
  }
};

class ResponseCache {
 public:
  void allocate(std::uint32_t entries) {
    entries_ = std::make_unique<Response[]>(entries);
    capacity_ = entries;
    next_ = first_ = 0;
    pending_ = 0;
  }
  void clear() {
    for (std::uint32_t i = 0; i < capacity_; ++i) entries_[i] = {};
    next_ = first_ = 0;
    pending_ = 0;
  }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }

  // The oldest entry may be replaced once it was sent. A pending replay may be replaced as well: a requester
  // that respects max_dest_rd_atomic sends a new request only after it has the answer to the oldest.
  [[nodiscard]] bool has_room() const {
    return capacity_ != 0 && (!entries_[next_].pending || entries_[next_].replaying);
  }
  // The slot for a new request; null if there is none.
  Response* add() {
    if (!has_room()) return nullptr;
    Response& response = entries_[next_];
    if (response.pending) --pending_;
    const bool was_first = first_ == next_;
    next_ = after(next_);
    if (was_first) first_ = next_;
    response = {};
    return &response;
  }
  void mark_pending(Response& response) {
    if (!response.pending) ++pending_;
    response.pending = true;
    const auto at = static_cast<std::uint32_t>(&response - entries_.get());
    if (pending_ == 1 || age_rank(at) < age_rank(first_)) first_ = at;
  }
  void mark_replay(Response& response) {
    response.replaying = !response.pending || response.replaying;
    mark_pending(response);
  }
  void mark_sent(Response& response) {
    RRDMA_ASSERT(response.pending);
    --pending_;
    response.pending = response.sending = response.replaying = false;
  }
  [[nodiscard]] bool any_pending() const { return pending_ != 0; }
  // The pending response with the earliest PSN.
  Response* first_pending() {
    if (pending_ == 0) return nullptr;
    while (!entries_[first_].pending) first_ = after(first_);
    return &entries_[first_];
  }
  // The last PSN that an acknowledgement of `psn` may name: before the next remembered request, and at most
  // `newest`.
  [[nodiscard]] wire::Psn last_before_next(wire::Psn psn, wire::Psn newest) const {
    wire::Psn last = newest;
    for (std::uint32_t i = 0; i < capacity_; ++i) {
      const Response& response = entries_[i];
      if (response.kind != wire::Kind::kUnknown && response.first_psn.after(psn) &&
          !response.first_psn.after(last)) {
        last = response.first_psn - 1;
      }
    }
    return last;
  }
  Response* find(wire::Psn psn) {
    for (std::uint32_t i = 0; i < capacity_; ++i) {
      if (entries_[i].covers(psn)) return &entries_[i];
    }
    return nullptr;
  }

 private:
  [[nodiscard]] std::uint32_t after(std::uint32_t at) const { return at + 1 == capacity_ ? 0 : at + 1; }
  // 0 is the oldest.
  [[nodiscard]] std::uint32_t age_rank(std::uint32_t at) const {
    return at >= next_ ? at - next_ : at + capacity_ - next_;
  }

  std::unique_ptr<Response[]> entries_;
  std::uint32_t capacity_ = 0;
  std::uint32_t next_ = 0;   // also the oldest
  std::uint32_t first_ = 0;  // no entry older than this one is pending
  std::uint32_t pending_ = 0;
};

}  // namespace rrdma::transport
