// ReorderBuffer: requests that arrived before one that is missing, at a responder whose peer understands what it
// says about them. They wait here and are executed in their order and not before: a request that is refused leaves
// those behind it without effect. Their octets wait, too, but for those of the request in progress, whose place is
// known.
//
// EarlyPackets is the store of an engine: a fixed number of slots for all its QPs, taken when the first QP wants
// one. What finds no slot is dropped, as it always was. A packet that was told of stays until it is executed. The
// places by PSN come from there, too, while a QP has something early: most have nothing most of the time.
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
  static constexpr std::uint16_t kSlots = 512;
  static constexpr std::size_t kOctetsMax = 4096;
  static constexpr std::uint16_t kNone = 0xffff;
  static constexpr std::uint32_t kPsns = 1024;
  using Places = std::array<std::uint16_t, kPsns>;

  void allocate();
  // A copy of the packet, but of its octets if these are placed already; kNone if there is no room, or it is too long.
  std::uint16_t keep(const wire::TransportPacket& packet, bool placed);
  [[nodiscard]] wire::TransportPacket at(std::uint16_t slot) const;
  [[nodiscard]] const wire::TransportHeaders& headers(std::uint16_t slot) const {
    return kept_[slot].headers;
  }
  [[nodiscard]] bool placed(std::uint16_t slot) const { return kept_[slot].placed; }
  void release(std::uint16_t slot) { free_.push_back(slot); }
  [[nodiscard]] std::size_t room() const { return free_.size(); }

  // All of them kNone, as they are to be given back. Who keeps a packet finds some: there are as many as slots.
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
  std::size_t places_used_ = 0;  // the first so many were taken once
  std::vector<Places*> free_places_;
};

class ReorderBuffer {
 public:
  static constexpr std::uint32_t kPsns =
      EarlyPackets::kPsns;  // how far ahead of the expected one a PSN may be
  static constexpr std::size_t kBitmapOctets = kPsns / 8;

  // The store outlives the buffer.
  void enable(EarlyPackets& store);
  void disable();
  [[nodiscard]] bool enabled() const { return store_ != nullptr; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] bool holds(wire::Psn psn) const { return count_ != 0 && place(psn) != EarlyPackets::kNone; }

  enum class Verdict : std::uint8_t { kKept, kKeptBeyondGap, kHadIt, kNoRoom };
  // Keeps a request that takes `psns` PSNs; of one whose octets are in place already not these. kKeptBeyondGap: what
  // is before it is missing, too.
  Verdict keep(const wire::TransportPacket& packet, wire::Psn expected, std::uint32_t psns,
               bool placed = false);
  struct Found {
    wire::TransportPacket packet;
    bool placed = false;  // then the octets of the packet are not here
  };
  // The request at `psn`, if it is here; good until release() or keep().
  [[nodiscard]] bool find(wire::Psn psn, Found& found) const;
  // Whether `psn`, from the middle of a message, is surely of the one in progress at `expected`. How long a SEND is nobody
  // says before its end; but where one packet is missing and the next is from the middle of a message, so is the
  // missing one. Where two are missing, one message may end and another begin.
  [[nodiscard]] bool in_same_message(wire::Psn psn, wire::Psn expected);
  // All before `expected` was executed, or is not wanted.
  void release_until(wire::Psn from, wire::Psn expected);
  void clear();

  // Bit i says whether expected + i is here. The octets up to the last that is not zero; they stay until the next
  // call.
  Octets bitmap(wire::Psn expected);

 private:
  // A PSN that belongs to a READ, which is kept under its first.
  static constexpr std::uint16_t kPart = 0xfffe;
  [[nodiscard]] std::uint16_t& place(wire::Psn psn) { return (*places_)[psn.value % kPsns]; }
  [[nodiscard]] std::uint16_t place(wire::Psn psn) const { return (*places_)[psn.value % kPsns]; }
  void vacate(std::uint16_t& slot);
  [[nodiscard]] const wire::TransportHeaders* headers(wire::Psn psn) const;  // null: it is not here
  [[nodiscard]] bool keeps_middle(wire::Psn psn) const;
  void follow(wire::Psn expected);

  EarlyPackets* store_ = nullptr;
  EarlyPackets::Places* places_ = nullptr;  // while count_ is not 0
  std::unique_ptr<std::array<std::uint8_t, kBitmapOctets>> bits_;
  std::uint32_t count_ = 0;  // places that are taken
  wire::Psn same_until_;     // no message ends before this PSN, as far as what came early tells
};

}  // namespace rrdma::transport
