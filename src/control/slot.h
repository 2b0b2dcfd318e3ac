// Slots: the assignment of QPNs to sockets of UDP port 4791, and thereby to programs. The kernel steers a
// datagram by its BTH.DestQP to the socket whose index is the slot. There are three sizes. A program gets the
// largest free one. A host with few programs thus gives each of them 65,536 QPNs, and a host with thousands
// has a slot for all.
//
//   slots           QPNs of each    from QPN
//      0 ..   63         65,536     0x000000      slot 0 holds QP1 and stays with the daemon
//     64 .. 1087          4,096     0x400000
//   1088 .. 5183          2,048     0x800000
#pragma once

#include <cstdint>

#include "base/assert.h"

namespace rrdma::control {

using Slot = std::uint16_t;

struct SlotSize {
  Slot first_slot;
  Slot slots;
  std::uint32_t first_qpn;
  unsigned qpn_bits;  // below the slot
};
inline constexpr SlotSize kLargeSlots{0, 64, 0x000000, 16};
inline constexpr SlotSize kMediumSlots{64, 1024, 0x400000, 12};
inline constexpr SlotSize kSmallSlots{1088, 4096, 0x800000, 11};
inline constexpr std::size_t kSlotCount = 5184;
static_assert(kSmallSlots.first_slot + kSmallSlots.slots == kSlotCount);
static_assert(kSmallSlots.first_qpn + (std::uint32_t{kSmallSlots.slots} << kSmallSlots.qpn_bits) == 1u << 24);

inline constexpr Slot kDaemonSlot = 0;
// The maximum number of slots of one program.
inline constexpr std::size_t kSlotsOfProgramMax = 16;

[[nodiscard]] constexpr const SlotSize& size_of_slot(Slot slot) {
  return slot < kMediumSlots.first_slot  ? kLargeSlots
         : slot < kSmallSlots.first_slot ? kMediumSlots
                                         : kSmallSlots;
}

struct QpnRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};
// REQUIRES: slot < kSlotCount.
[[nodiscard]] constexpr QpnRange qpns_of(Slot slot) {
  const SlotSize& size = size_of_slot(slot);
  return {size.first_qpn + (static_cast<std::uint32_t>(slot - size.first_slot) << size.qpn_bits),
          1u << size.qpn_bits};
}

// REQUIRES: a 24-bit QPN.
[[nodiscard]] constexpr Slot slot_of_qpn(std::uint32_t qpn) {
  const SlotSize& size = qpn < kMediumSlots.first_qpn  ? kLargeSlots
                         : qpn < kSmallSlots.first_qpn ? kMediumSlots
                                                       : kSmallSlots;
  return static_cast<Slot>(size.first_slot + ((qpn - size.first_qpn) >> size.qpn_bits));
}
static_assert(slot_of_qpn(qpns_of(63).first + 65535) == 63 && slot_of_qpn(qpns_of(64).first) == 64);
static_assert(slot_of_qpn(qpns_of(1087).first + 4095) == 1087 && slot_of_qpn(qpns_of(1088).first) == 1088);
static_assert(slot_of_qpn(0xffffff) == kSlotCount - 1);

}  // namespace rrdma::control
