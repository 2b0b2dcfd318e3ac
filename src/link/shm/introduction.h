// Messages over a doorbell socket other than knocks: one introduction each way, by which a process passes its
// DirectTable to the peer. The kernel verifies the credentials (the pid is the sender's in the receiver's PID
// namespace; 0: none).
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/owned_fd.h"
#include "link/shm/direct_peer.h"

namespace rrdma::link {

// Never blocks. False if not sent; then the peer uses packets.
bool send_introduction(int doorbell, const DirectIntroduction& introduction, int table_fd);

enum class Heard : std::uint8_t { kNothing, kKnock, kIntroduction, kHangUp };

struct HeardIntroduction {
  DirectIntroduction introduction;
  OwnedFd table;
  pid_t pid = 0;
};

// Reads the next message of a doorbell, whatever the peer sent. Closes unsolicited descriptors.
Heard hear(int doorbell, HeardIntroduction& heard);

}  // namespace rrdma::link
