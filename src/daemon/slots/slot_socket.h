// One receiving socket of UDP port 4791, and the steering of the group that it belongs to.
//
// All slot sockets of a family form one SO_REUSEPORT group; the kernel picks the member whose index a
// classic BPF program returns: the slot of BTH.DestQP (control/slot.h). Offset 0 of that program is the
// first octet after the UDP header (measured); a datagram too short to have a DestQP, and one for a slot
// that is not bound yet, goes to slot 0. The order of binding is the index, so that a socket of the group is never
// closed while anybody lives: the kernel would move the last one into its place.
//
// Slot 0 is bound first and without SO_REUSEPORT: that is the probe, and it leaves no moment in which
// another program of the same user could become part of the group.
#pragma once

#include <cstdint>

#include "base/owned_fd.h"
#include "base/result.h"
#include "control/messages.h"

namespace rrdma::daemon {

// What a slot may queue in the kernel while somebody reads it, and while nobody does.
inline constexpr int kHeldReceiveBuffer = 8 * 1024 * 1024;
inline constexpr int kFreeReceiveBuffer = 4 * 1024;
// ... while the relay reads it: it never waits for the program.
inline constexpr int kRelayedReceiveBuffer = 2 * 1024 * 1024;

// A bound socket of AF_INET or AF_INET6, or the errno. `is_first`: of its group, which must not exist.
[[nodiscard]] Result<OwnedFd, int> bind_slot_socket(int family, bool is_first);

// Steers DestQPs of slots below `slots_bound` to their sockets and all others to slot 0. `socket` is
// slot 0 of the family. Returns 0 or an errno.
[[nodiscard]] int steer_group(int socket, unsigned slots_bound);

// Forbids the holder of this socket to attach another program to the group.
void lock_steering(int socket);

// Sets every option as it must be, whatever an earlier holder did to the socket.
void prepare_slot_socket(int socket, int family, int receive_buffer);

// Throws away what is queued; returns how many datagrams.
std::uint64_t drain_slot_socket(int socket);

// It is a UDP socket of that family, bound to port 4791 in this network namespace.
[[nodiscard]] bool is_slot_socket(int socket, int family);

}  // namespace rrdma::daemon
