// ShmPeers: the shared-memory channels of a lane, by the slot of the peer. The side that needs a channel
// first creates it and offers it to the other through the daemon. Frames may be written before the other side
// has opened it. Both ends decide by the same facts (same user, both allow shm), so both directions of a
// connection use the same kind of link.
//
// Threads: calls under the lane's lock, except open_channel(), which talks to the daemon and is called
// without it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/owned_fd.h"
#include "base/problem.h"
#include "base/result.h"
#include "control/client/daemon_client.h"
#include "control/messages.h"
#include "link/shm/shm_link.h"
#include "nic/wakeup/lane_lock.h"

namespace rrdma::nic {

class ShmPeers {
 public:
  ShmPeers(link::ShmLink& link, control::DaemonClient& daemon, LaneLock& mutex)
      : link_(link), daemon_(daemon), mutex_(mutex) {}

  struct Channel {
    std::uint32_t number;  // for Path::peer
    std::uint32_t party;   // for Path::party: names the process behind it, the same for all its channels
  };
  // The channel to the process that holds `slot`; created if there is none. REQUIRES: the lock is not held.
  Result<Channel, Problem> open_channel(control::Slot own_slot, control::Slot slot, std::uint64_t token);
  // Adds the other end of a channel that a peer created.
  void accept(const control::ChannelOffered& offer, std::vector<OwnedFd> fds);

  [[nodiscard]] std::uint32_t party_of(std::uint32_t channel) const;

  // The channels to this process.
  [[nodiscard]] std::vector<std::uint32_t> channels_of(std::uint64_t token) const;
  void forget_channel(std::uint32_t peer);

 private:
  struct Peer {
    std::uint64_t token;
    control::Slot slot;
    std::uint32_t channel;
    std::uint32_t party;
  };
  std::uint32_t party_of_token(std::uint64_t token);
  std::optional<Channel> find(control::Slot slot, std::uint64_t token) const;
  Result<Channel, Problem> open_self(control::Slot slot, std::uint64_t token);

  link::ShmLink& link_;
  control::DaemonClient& daemon_;
  LaneLock& mutex_;
  std::vector<Peer> peers_;
  std::uint32_t last_party_ = 0;
};

}  // namespace rrdma::nic
