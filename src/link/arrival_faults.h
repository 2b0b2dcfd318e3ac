// ArrivalFaults: what a FaultSpec does to packets that arrive: the other direction of FaultLink. They are parsed and checked
// by then, so one that is corrupted is lost, as the check of its ICRC would have it. What has to wait is copied, into memory
// that is taken when the first one has to. A packet that finds no room there is lost, as before a cable that is too slow.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "link/fault_dice.h"
#include "link/fault_link.h"
#include "link/link.h"

namespace rrdma::link {

class ArrivalFaults {
 public:
  static constexpr std::size_t kHeldMax = 2048;

  explicit ArrivalFaults(const FaultSpec& spec) : dice_(spec) {}

  // A packet that has just come: what passes at once goes to the receiver. Returns what was done to it
  // (objects::InjectedFault).
  std::uint8_t take(const wire::TransportPacket& packet, const objects::PacketOrigin& origin,
                    Receiver& receiver, Instant now);
  // Hands over those whose time has come. Returns how many.
  std::size_t release(Receiver& receiver, Instant now);
  [[nodiscard]] Instant next_deadline() const;
  [[nodiscard]] const FaultCounters& tally() const { return tally_; }

 private:
  struct Slot {
    wire::TransportHeaders headers;
    objects::PacketOrigin origin;
    std::size_t payload_octets = 0;
    std::array<std::uint8_t, 40> grh{};
    bool has_grh = false;
  };
  struct Waiting {
    std::uint32_t slot = 0;
    Instant due;
    std::uint32_t overtakers = 0;  // so many later packets make it due too; 0: time alone does
  };

  // The fault that takes it; 0: none does.
  [[nodiscard]] std::uint8_t loss_of(const FaultDice::Fate& fate, const wire::TransportPacket& packet);
  void overtake(Instant now);
  [[nodiscard]] bool hold(const wire::TransportPacket& packet, const objects::PacketOrigin& origin,
                          Instant due, std::uint32_t overtakers);
  void give_memory();

  FaultDice dice_;
  FaultCounters tally_;
  std::vector<Slot> slots_;
  std::unique_ptr<std::uint8_t[]> payloads_;
  std::vector<std::uint32_t> free_;
  std::vector<Waiting> waiting_;  // in the order they came
  std::vector<Waiting> due_;      // while they are handed over
  Instant cable_free_{};          // from when the slow cable takes the next packet
};

}  // namespace rrdma::link
