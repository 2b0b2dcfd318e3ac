// ReorderBuffer: requests that arrived ahead of a missing one, at a responder whose peer understands arrival
// maps. They are executed in PSN order only: if a request is refused, those behind it have no effect. Their
// payload waits as well, except that of the message in progress, whose destination is already known.
//
// EarlyPackets: the engine's store, a fixed number of slots for all QPs, allocated when the first QP needs
// one. A packet that finds no free slot is dropped. A packet that was reported to the peer stays until it is
// executed. The tables of places by PSN come from the same store while a QP holds early packets; most QPs
// hold none most of the time. The last kReserve slots are for QPs that hold few packets, so that one peer
// cannot take the store from others.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/octets.h"
#include "wire/transport_packet.h"

namespace rrdma::transport {

class EarlyPackets {
 public:
  static constexpr std::uint16_t kSlots = 640;
  static constexpr std::uint16_t kReserve = 128;
  static constexpr std::uint16_t kReserveShare = 16;  // a QP may hold 1/16 of the slots left in it
  static constexpr std::size_t kOctetsMax = 4096;
  static constexpr std::uint16_t kNone = 0xffff;
  static constexpr std::uint32_t kPsns = 1024;
  using Places = std::array<std::uint16_t, kPsns>;

  void allocate();
  // Copies the packet, without its payload if that is `placed` already. Returns kNone if no slot is free for
  // a QP that holds `held` packets, or if the packet is too long.
  std::uint16_t keep(const wire::TransportPacket& packet, bool placed, std::uint32_t held);
  [[nodiscard]] wire::TransportPacket at(std::uint16_t slot) const;
  [[nodiscard]] const wire::TransportHeaders& headers(std::uint16_t slot) const {
    return kept_[slot].headers;
  }
  [[nodiscard]] bool placed(std::uint16_t slot) const { return kept_[slot].placed; }
  void release(std::uint16_t slot) { free_.push_back(slot); }
  [[nodiscard]] std::size_t room() const { return free_.size(); }

  // Returns a table in which every place is kNone; it must be given back in that state. Cannot fail for a
  // caller that holds a slot: there are as many tables as slots.
  Places* take_places();
  void give_back(Places* places) { free_places_.push_back(places); }

 private:
  struct Kept {
    wire::TransportHeaders headers;
    std::uint16_t octets = 0;
    bool placed = false;
  };
  std::vector<Kept> kept_;
  std::unique_ptr<std::uint8_t[]> octets_;
  std::vector<std::uint16_t> free_;
  std::unique_ptr<Places[]> places_;
  std::size_t places_used_ = 0;  // number of tables that have been handed out at least once
  std::vector<Places*> free_places_;
};

class ReorderBuffer {
 public:
  static constexpr std::uint32_t kPsns =
      EarlyPackets::kPsns;  // how far ahead of the expected PSN a packet may be
  static constexpr std::size_t kBitmapOctets = kPsns / 8;

  // The store must outlive the buffer.
  void enable(EarlyPackets& store);
  void disable();
  [[nodiscard]] bool enabled() const { return store_ != nullptr; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] bool holds(wire::Psn psn) const { return count_ != 0 && place(psn) != EarlyPackets::kNone; }

  enum class Verdict : std::uint8_t { kKept, kKeptBeyondGap, kHadIt, kNoRoom };
  // Keeps a request that takes `psns` PSNs, without its payload if that is `placed` already. kKeptBeyondGap:
  // the PSN before it is missing, too.
  Verdict keep(const wire::TransportPacket& packet, wire::Psn expected, std::uint32_t psns,
               bool placed = false);
  struct Found {
    wire::TransportPacket packet;
    bool placed = false;  // the payload was placed on arrival and is not here
  };
  // Finds the request at `psn`. The result is valid until release_until() or keep().
  [[nodiscard]] bool find(wire::Psn psn, Found& found) const;
  // True if `psn`, a MIDDLE packet, certainly belongs to the message in progress at `expected`. The length of
  // a SEND is unknown before its end. But if a single packet is missing before a MIDDLE packet, it belongs to
  // the same message. If two are missing, one message may end and another begin between them.
  [[nodiscard]] bool in_same_message(wire::Psn psn, wire::Psn expected);
  // Drops everything before `expected`: it was executed or is no longer wanted.
  void release_until(wire::Psn from, wire::Psn expected);
  void clear();

  // Bit i is set if expected + i is here. Ends with the last non-zero byte, rounded up to four bytes. Valid
  // until the next call.
  Octets bitmap(wire::Psn expected);

 private:
  // Marks the further PSNs of a READ, which is kept under its first PSN.
  static constexpr std::uint16_t kPart = 0xfffe;
  [[nodiscard]] std::uint16_t& place(wire::Psn psn) { return (*places_)[psn.value % kPsns]; }
  [[nodiscard]] std::uint16_t place(wire::Psn psn) const { return (*places_)[psn.value % kPsns]; }
  void vacate(std::uint16_t& slot);
  [[nodiscard]] const wire::TransportHeaders* headers(wire::Psn psn) const;  // null: not here
  [[nodiscard]] bool keeps_middle(wire::Psn psn) const;
  void follow(wire::Psn expected);

  EarlyPackets* store_ = nullptr;
  EarlyPackets::Places* places_ = nullptr;  // null while count_ is 0
  std::unique_ptr<std::array<std::uint8_t, kBitmapOctets>> bits_;
  std::uint32_t count_ = 0;  // occupied places
  std::uint32_t held_ = 0;   // packets; a READ occupies several places
  wire::Psn same_until_;     // no message ends before this PSN, as far as the early packets show
};

}  // namespace rrdma::transport
