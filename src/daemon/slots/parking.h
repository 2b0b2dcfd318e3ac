// The parking: keeps slot sockets alive without a process that has them open. They are unread SCM_RIGHTS
// messages in the receive queue of one end of a socketpair. Every client holds that end, and the queue lives
// until the last of them is gone. MSG_PEEK copies the descriptors and leaves the message, so any later daemon
// can take them all.
//
//   parking = shelf 0, shelf 1, ...         a socketpair each; clients hold the reading end of shelf 0
//   shelf   = parcel, ..., next             at most kParcelsOnShelf, in the order of the slots
//   parcel  = ParcelHeader | descriptors: (parcel 0 only: the feeding end, the ledger), v4[count], v6[count]
//   next    = ParcelHeader | descriptors: both ends of the next shelf
//
// The group grows by parcels on demand. Descriptors in flight count against the user's RLIMIT_NOFILE in every
// process of that user, so a host with ten programs must not have thousands of them. A queue holds at most
// net.unix.max_dgram_qlen (10) datagrams, a datagram at most 253 descriptors. The feeding end is parked, too;
// otherwise a later daemon could not append.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "control/slot.h"
#include "daemon/slots/slot_socket.h"

namespace rrdma::daemon {

using control::Slot;

inline constexpr std::size_t kParcelsOnShelf = 9;
inline constexpr std::size_t kParcels = 83;

// The number of slots of a parcel: 16, 16, 32, then 64 each.
[[nodiscard]] constexpr std::uint16_t parcel_slots(std::size_t index) {
  return index < 2 ? 16 : index == 2 ? 32 : 64;
}
[[nodiscard]] constexpr Slot first_slot_of_parcel(std::size_t index) {
  return static_cast<Slot>(index < 3 ? 16 * index : 64 * (index - 2));
}
[[nodiscard]] constexpr std::size_t parcel_of_slot(Slot slot) {
  return slot < 48 ? slot / 16 : slot < 64 ? 2 : slot / 64u + 2;
}
static_assert(first_slot_of_parcel(kParcels) == control::kSlotCount);

struct Parcel {
  std::uint16_t first_slot = 0;
  std::uint8_t families = 0;
  OwnedFd feed;    // parcel 0
  OwnedFd ledger;  // parcel 0
  std::vector<IpSockets> slots;
};

class Parking {
 public:
  // Creates an empty parking; errno on failure.
  [[nodiscard]] static Result<Parking, int> create();
  // Adopts an offered parking. Nothing if it does not hold a group of sockets of port 4791.
  [[nodiscard]] static std::optional<Parking> adopt(OwnedFd end);

  // The end that every client holds.
  [[nodiscard]] int end() const { return shelves_.front().end.get(); }
  [[nodiscard]] unsigned slots_parked() const { return slots_parked_; }
  // The number of slots of the next parcel; 0: all are parked.
  [[nodiscard]] std::uint16_t next_parcel_slots() const {
    return parcels_ < kParcels ? parcel_slots(parcels_) : 0;
  }

  // Appends the next parcel. Returns 0 or an errno. The caller may close its own descriptors afterwards.
  // REQUIRES: parcel.first_slot == slots_parked() and the size of parcel_slots().
  [[nodiscard]] int park(const Parcel& parcel);
  // Copies the descriptors of a parcel.
  [[nodiscard]] std::optional<Parcel> peek(std::size_t index) const;
  // The sockets of one slot. REQUIRES: slot < slots_parked().
  [[nodiscard]] IpSockets sockets_of(Slot slot) const;

 private:
  struct Shelf {
    OwnedFd end;
    OwnedFd feed;
  };
  // One datagram of a shelf; nothing if there is none at that index.
  struct Message;
  [[nodiscard]] static Result<Shelf, int> create_shelf();
  [[nodiscard]] static std::optional<Message> peek_message(const Shelf& shelf, std::size_t place);
  [[nodiscard]] int add_shelf();

  std::vector<Shelf> shelves_;
  std::size_t parcels_ = 0;
  unsigned slots_parked_ = 0;
};

}  // namespace rrdma::daemon
