// The parking: where slot sockets stay alive without a process that has them open. They lie as unread
// SCM_RIGHTS messages in the receive queue of one end of a socketpair, and every client holds that end;
// the queue lives until the last of them is gone. Reading with MSG_PEEK takes a copy and leaves the
// message, so that any daemon, now or later, can take them all.
//
//   parking = parcel 0, parcel 1, ...                  in the order of the slots, one datagram each
//   parcel  = ParcelHeader | descriptors: (parcel 0 only: the feeding end, the ledger), v4[count], v6[count]
//
// The group grows by parcels, as slots are wanted: descriptors in flight count against the user's
// RLIMIT_NOFILE in every process of that user, so a host with ten programs must not have 512 of them.
// Few, large parcels: a queue may hold no more than net.unix.max_dgram_qlen (10) datagrams. The feeding
// end is parked in parcel 0, else a later daemon could not append.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "daemon/slots/slot_socket.h"

namespace rrdma::daemon {

inline constexpr std::array<std::uint16_t, 6> kParcelSlots = {16, 16, 32, 64, 64, 64};

struct Parcel {
  std::uint16_t first_slot = 0;
  std::uint8_t families = 0;
  OwnedFd feed;    // parcel 0
  OwnedFd ledger;  // parcel 0
  std::vector<IpSockets> slots;
};

class Parking {
 public:
  // An empty one; errno on failure.
  [[nodiscard]] static Result<Parking, int> create();
  // One that somebody offered. Nothing when it does not hold a group of sockets of port 4791.
  [[nodiscard]] static std::optional<Parking> adopt(OwnedFd end);

  // What every client holds.
  [[nodiscard]] int end() const { return end_.get(); }
  [[nodiscard]] unsigned slots_parked() const { return slots_parked_; }

  // Appends the next parcel; 0 or an errno. The caller may close its own descriptors afterwards.
  // REQUIRES: parcel.first_slot == slots_parked() and the size that kParcelSlots says.
  [[nodiscard]] int park(const Parcel& parcel);
  // Copies of the descriptors of a parcel.
  [[nodiscard]] std::optional<Parcel> peek(std::size_t index) const;
  // The sockets of one slot. REQUIRES: slot < slots_parked().
  [[nodiscard]] IpSockets sockets_of(std::uint8_t slot) const;

 private:
  OwnedFd end_;
  OwnedFd feed_;
  unsigned slots_parked_ = 0;
};

}  // namespace rrdma::daemon
