// One receiving socket of UDP port 4791, and the steering of its group.
//
// All slot sockets of a family form one SO_REUSEPORT group. A classic BPF program returns the index of the
// member that the kernel picks: the slot of BTH.DestQP (control/slot.h). Offset 0 of that program is the
// first byte after the UDP header (measured). A datagram that is too short for a DestQP, or for a slot that
// is not bound yet, goes to slot 0. The order of binding defines the index. So no socket of the group is
// closed while any is in use: the kernel would move the last one into its place.
//
// Slot 0 is bound first and without SO_REUSEPORT. This probes the port, and leaves no moment in which another
// program of the same user could join the group.
#pragma once

#include <cstdint>

#include "base/owned_fd.h"
#include "base/result.h"
#include "control/messages.h"

namespace rrdma::daemon {

// The receive buffer of a slot while a program reads it, and while it is free.
inline constexpr int kHeldReceiveBuffer = 8 * 1024 * 1024;
inline constexpr int kFreeReceiveBuffer = 4 * 1024;
// ... while the relay reads it, which never waits for the program.
inline constexpr int kRelayedReceiveBuffer = 2 * 1024 * 1024;

// Binds a socket of AF_INET or AF_INET6. `is_first`: the first of its group, which must not exist.
[[nodiscard]] Result<OwnedFd, int> bind_slot_socket(int family, bool is_first);

// Steers DestQPs of slots below `slots_bound` to their sockets and all others to slot 0. `socket` is
// slot 0 of the family. Returns 0 or an errno.
[[nodiscard]] int steer_group(int socket, unsigned slots_bound);

// Prevents the holder of this socket from attaching another program to the group.
void lock_steering(int socket);

// Sets every option, whatever an earlier holder did to the socket.
void prepare_slot_socket(int socket, int family, int receive_buffer);

// Discards the queued datagrams; returns their number.
std::uint64_t drain_slot_socket(int socket);

// Whether it is a UDP socket of that family, bound to port 4791 in this network namespace.
[[nodiscard]] bool is_slot_socket(int socket, int family);

}  // namespace rrdma::daemon
