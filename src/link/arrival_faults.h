// ArrivalFaults: applies a FaultSpec to arriving packets, as FaultLink does to sent ones. The packets are
// already parsed and checked, so a corrupted one is dropped, as the ICRC check would have done. Packets that
// must wait are copied into memory that is allocated for the first of them. A packet that finds no room there
// is dropped, as before a slow cable.
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

  // Handles a packet that has just arrived; if it passes at once, it goes to the receiver. Returns the
  // injected faults (objects::InjectedFault).
  std::uint8_t take(const wire::TransportPacket& packet, const objects::PacketOrigin& origin,
                    Receiver& receiver, Instant now);
  // Delivers the packets that are due. Returns their number.
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
    std::uint32_t overtakers = 0;  // this many later packets also make it due; 0: only time does
  };

  // The fault that drops the packet; 0: none.
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
  std::vector<Waiting> waiting_;  // in order of arrival
  std::vector<Waiting> due_;      // while they are delivered
  Instant cable_free_{};          // when the slow cable can take the next packet
};

}  // namespace rrdma::link
