// FlightLog: what a requester knows about each PSN between the oldest unfinished one and the last one sent:
// when it went, and what became of it. From it follow which packets are lost (RACK, RFC 8985: what was sent
// before something that has arrived, and has not arrived itself), how many are under way, and how long a
// round trip takes. A ring of records, taken when the QP is connected; without one (strict, lossless paths) the
// requester goes back N as it always did.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>

#include "base/assert.h"
#include "base/instant.h"
#include "wire/numbers.h"

namespace rrdma::transport {

enum class PacketFate : std::uint8_t {
  kUnderWay,
  kArrived,  // at the peer, which has not executed it yet, or has, and its response is not here
  kLost,     // to be sent again
  kDone,
};

struct PacketRecord {
  Instant sent_at;
  PacketFate fate = PacketFate::kUnderWay;
  bool again = false;         // sent more than once
  bool response = false;      // finished by a response, not by an acknowledgement
  bool ends_request = false;  // the last PSN of a READ or ATOMIC on the wire
  bool asked = false;         // wanted an answer; of a probe: before it was one
  bool probe = false;  // sent again without a sign that it was lost: an answer may be to the copy before
};

class FlightLog {
 public:
  // Room for so many PSNs at least.
  void enable(std::uint32_t packets) {
    const std::uint32_t capacity = std::bit_ceil(packets < 2 ? 2 : packets);
    if (capacity != this->capacity()) records_ = std::make_unique<PacketRecord[]>(capacity);
    mask_ = capacity - 1;
    clear();
  }
  void disable() {
    records_.reset();
    mask_ = 0;
    clear();
  }
  void clear() { lost_ = done_ = under_way_ = arrived_ = 0; }

  [[nodiscard]] bool enabled() const { return records_ != nullptr; }
  [[nodiscard]] std::uint32_t capacity() const { return records_ == nullptr ? 0 : mask_ + 1; }
  [[nodiscard]] std::uint32_t lost() const { return lost_; }
  [[nodiscard]] std::uint32_t done() const { return done_; }            // beyond the oldest unfinished PSN
  [[nodiscard]] std::uint32_t under_way() const { return under_way_; }  // with the responses to come
  [[nodiscard]] std::uint32_t arrived() const { return arrived_; }      // of those that await no response

  [[nodiscard]] const PacketRecord& at(wire::Psn psn) const { return records_[psn.value & mask_]; }

  // A PSN beyond all others is sent for the first time.
  void add(wire::Psn psn, Instant now, bool response, bool ends_request, bool asked) {
    records_[psn.value & mask_] = {now, PacketFate::kUnderWay, false, response, ends_request, asked};
    ++under_way_;
  }
  // It is to be sent again: because something tells that it was lost, or as a probe.
  void lose(wire::Psn psn, bool as_probe) {
    become(psn, PacketFate::kLost);
    records_[psn.value & mask_].probe = as_probe;
  }
  void send_again(wire::Psn psn, Instant now, bool asked, bool as_probe) {
    PacketRecord& record = records_[psn.value & mask_];
    become(psn, PacketFate::kUnderWay);
    record.sent_at = now;
    record.again = true;
    record.probe = as_probe;
    if (!as_probe) record.asked = asked;
  }
  void become(wire::Psn psn, PacketFate fate) {
    PacketRecord& record = records_[psn.value & mask_];
    --counter(record);
    record.fate = fate;
    ++counter(record);
  }
  // The oldest one is finished and leaves.
  void retire(wire::Psn psn) {
    RRDMA_ASSERT(at(psn).fate == PacketFate::kDone);
    --done_;
  }

 private:
  std::uint32_t& counter(const PacketRecord& record) {
    switch (record.fate) {
      case PacketFate::kLost: return lost_;
      case PacketFate::kDone: return done_;
      case PacketFate::kArrived: return record.response ? under_way_ : arrived_;
      default: return under_way_;
    }
  }

  std::unique_ptr<PacketRecord[]> records_;
  std::uint32_t mask_ = 0;
  std::uint32_t lost_ = 0, done_ = 0, under_way_ = 0, arrived_ = 0;
};

}  // namespace rrdma::transport
