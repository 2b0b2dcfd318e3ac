// FlightLog: what a requester knows about each PSN between the oldest unfinished one and the last one sent:
// when it went, and what became of it. From it follow which packets are lost (RACK, RFC 8985: what was sent
// before something that has arrived, and has not arrived itself), how many are under way, and how long a
// round trip takes. A ring of records that grows with what is under way: a few are in the QP itself, more come from
// the engine's store, which sets them aside when the QP is connected. Where it is off (strict, lossless paths) the
// requester goes back N as it always did.
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
  // Room for so many PSNs at least. The store outlives the log, which is disabled before it ends.
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

  [[nodiscard]] bool enabled() const { return capacity_ != 0; }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint32_t lost() const { return lost_; }
  [[nodiscard]] std::uint32_t done() const { return done_; }            // beyond the oldest unfinished PSN
  [[nodiscard]] std::uint32_t under_way() const { return under_way_; }  // with the responses to come
  [[nodiscard]] std::uint32_t arrived() const { return arrived_; }      // of those that await no response

  // REQUIRES: it was sent, and is no older than the oldest unfinished one.
  [[nodiscard]] const PacketRecord& at(wire::Psn psn) const { return records()[psn.value & mask_]; }

  // A PSN beyond all others is sent for the first time.
  void add(wire::Psn psn, Instant now, bool response, bool ends_request, bool asked) {
    if (live() > mask_) grow(psn);
    record(psn) = {now, PacketFate::kUnderWay, false, response, ends_request, asked, false, 0};
    ++under_way_;
  }
  // It is to be sent again: because something tells that it was lost, or as a probe.
  void lose(wire::Psn psn, bool as_probe) {
    become(psn, PacketFate::kLost);
    record(psn).probe = as_probe;
  }
  // `end`: one past the last PSN that was sent before.
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
  // The oldest one is finished and leaves.
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

  // Each PSN from the oldest unfinished one to the last one sent counts once.
  [[nodiscard]] std::uint32_t live() const { return lost_ + done_ + under_way_ + arrived_; }
  [[nodiscard]] const PacketRecord* records() const { return ring_ != nullptr ? ring_ : own_.data(); }
  [[nodiscard]] PacketRecord& record(wire::Psn psn) {
    return (ring_ != nullptr ? ring_ : own_.data())[psn.value & mask_];
  }

  // Twice the part of the ring that is used; `end` is one past the last PSN. Within the ring a record stays where it
  // is or moves to the half that is new.
  void grow(wire::Psn end) {
    RRDMA_ASSERT(mask_ + 1 < capacity_);
    PacketRecord* const from = &record(wire::Psn(0));
    if (ring_ == nullptr) ring_ = store_->take(capacity_);
    const std::uint32_t mask = 2 * mask_ + 1;
    for (wire::Psn psn = end - live(); psn != end; ++psn) ring_[psn.value & mask] = from[psn.value & mask_];
    mask_ = mask;
  }

  static constexpr std::uint32_t kOwnRecords = 8;
  PacketRecord* ring_ = nullptr;  // of `capacity_` records; null: own_ is enough
  FlightStore* store_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t mask_ = kOwnRecords - 1;  // of the part that is used
  std::uint32_t lost_ = 0, done_ = 0, under_way_ = 0, arrived_ = 0;
  std::array<PacketRecord, kOwnRecords> own_;
};

}  // namespace rrdma::transport
