// What travels over a doorbell socket besides knocks: one introduction each way, by which a process hands
// its DirectTable to the peer, with credentials that the kernel has checked (the pid is the one that it
// has in the receiver's PID namespace; 0: none).
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/owned_fd.h"
#include "link/shm/direct_peer.h"

namespace rrdma::link {

// Never blocks. False: not sent; then the peer uses packets.
bool send_introduction(int doorbell, const DirectIntroduction& introduction, int table_fd);

enum class Heard : std::uint8_t { kNothing, kKnock, kIntroduction, kHangUp };

struct HeardIntroduction {
  DirectIntroduction introduction;
  OwnedFd table;
  pid_t pid = 0;
};

// The next message of a doorbell, whatever the peer sent. Descriptors that nobody asked for are closed.
Heard hear(int doorbell, HeardIntroduction& heard);

}  // namespace rrdma::link
