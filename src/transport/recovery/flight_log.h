// FlightLog: the requester's record of each PSN from the oldest unfinished one to the last one sent: when it
// was sent and whether it arrived. From it follow the lost packets (RACK, RFC 8985: sent before a packet that
// has arrived, and not arrived itself), the number of packets in flight, and the round trip.
//
// The log is a ring that grows with the flight. The QP holds a few records; larger rings come from the
// engine's FlightStore, which reserves them when the QP connects.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/assert.h"
#include "base/instant.h"
#include "transport/recovery/flight_store.h"
#include "wire/numbers.h"

namespace rrdma::transport {

class FlightLog {
 public:
  // Makes room for at least `packets` PSNs. The store must outlive the log; disable() must run before the log
  // is destroyed.
  void enable(std::uint32_t packets, FlightStore& store) {
    const std::uint32_t capacity = std::max(std::bit_ceil(packets), kOwnRecords);
    if (capacity != capacity_) {
      disable();
      store.reserve(capacity);
      store_ = &store;
      capacity_ = capacity;
    }
    clear();
  }
  void disable() {
    if (ring_ != nullptr) store_->give_back(ring_, capacity_);
    if (store_ != nullptr) store_->unreserve(capacity_);
    ring_ = nullptr;
    store_ = nullptr;
    capacity_ = 0;
    mask_ = kOwnRecords - 1;
    clear();
  }
  void clear() { lost_ = done_ = under_way_ = arrived_ = 0; }

  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }  // 0: disabled
  [[nodiscard]] std::uint32_t lost() const { return lost_; }
  [[nodiscard]] std::uint32_t done() const { return done_; }            // beyond the oldest unfinished PSN
  [[nodiscard]] std::uint32_t under_way() const { return under_way_; }  // includes responses to come
  [[nodiscard]] std::uint32_t arrived() const { return arrived_; }      // only packets that await no response

  // REQUIRES: `psn` was sent and is not before the oldest unfinished PSN.
  [[nodiscard]] const PacketRecord& at(wire::Psn psn) const { return records()[psn.value & mask_]; }

  // Adds a PSN that is sent for the first time, beyond all others.
  void add(wire::Psn psn, Instant now, bool response, bool ends_request, bool asked) {
    if (live() > mask_) grow(psn);
    record(psn) = {now, PacketFate::kUnderWay, false, response, ends_request, asked, false, 0};
    ++under_way_;
  }
  // Marks a packet for retransmission, either because it is known to be lost or as a probe.
  void lose(wire::Psn psn, bool as_probe) {
    become(psn, PacketFate::kLost);
    record(psn).probe = as_probe;
  }
  // `end`: one past the last PSN that has been sent.
  void send_again(wire::Psn psn, wire::Psn end, Instant now, bool asked, bool as_probe) {
    become(psn, PacketFate::kUnderWay);
    PacketRecord& one = record(psn);
    one.behind = static_cast<std::uint16_t>(std::min(end.since(psn), 0xffff));
    one.sent_at = now;
    one.again = true;
    one.probe = as_probe;
    if (!as_probe) one.asked = asked;
  }
  void become(wire::Psn psn, PacketFate fate) {
    PacketRecord& one = record(psn);
    --counter(one);
    one.fate = fate;
    ++counter(one);
  }
  // Removes the oldest PSN. REQUIRES: it is done.
  void retire(wire::Psn psn) {
    RRDMA_ASSERT(at(psn).fate == PacketFate::kDone);
    --done_;
  }

 private:
  std::uint32_t& counter(const PacketRecord& one) {
    switch (one.fate) {
      case PacketFate::kLost: return lost_;
      case PacketFate::kDone: return done_;
      case PacketFate::kArrived: return one.response ? under_way_ : arrived_;
      default: return under_way_;
    }
  }

  // Every PSN from the oldest unfinished one to the last one sent is in exactly one counter.
  [[nodiscard]] std::uint32_t live() const { return lost_ + done_ + under_way_ + arrived_; }
  [[nodiscard]] const PacketRecord* records() const { return ring_ != nullptr ? ring_ : own_.data(); }
  [[nodiscard]] PacketRecord& record(wire::Psn psn) {
    return (ring_ != nullptr ? ring_ : own_.data())[psn.value & mask_];
  }

  // Doubles the used part of the ring; `end` is one past the last PSN. Within the ring a record keeps its
  // place or moves to the new half.
  void grow(wire::Psn end) {
    RRDMA_ASSERT(mask_ + 1 < capacity_);
    PacketRecord* const from = &record(wire::Psn(0));
    if (ring_ == nullptr) ring_ = store_->take(capacity_);
    const std::uint32_t mask = 2 * mask_ + 1;
    for (wire::Psn psn = end - live(); psn != end; ++psn) ring_[psn.value & mask] = from[psn.value & mask_];
    mask_ = mask;
  }

  static constexpr std::uint32_t kOwnRecords = 8;
  PacketRecord* ring_ = nullptr;  // `capacity_` records; null: own_ is large enough
  FlightStore* store_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t mask_ = kOwnRecords - 1;  // of the used part
  std::uint32_t lost_ = 0, done_ = 0, under_way_ = 0, arrived_ = 0;
  std::array<PacketRecord, kOwnRecords> own_;
};

}  // namespace rrdma::transport
