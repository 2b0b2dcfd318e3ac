// The sockets of NETLINK_RDMA that a program opens. The kernel has the protocol only if its RDMA core is
// loaded, and does not know our devices. So the program gets a socket of NETLINK_USERSOCK instead. The hook
// of its sends passes the question on; the answer comes from here: first our devices, then what the kernel
// says.
//
// The program's socket is connected to ours before the first answer, so the kernel refuses messages of
// others.
//
// Threads: any. Preserves nothing: errno belongs to the call that is hooked.
#pragma once

#include <sys/socket.h>

#include "base/octets.h"

namespace rrdma::netlink {

// True if a program's call of socket() is answered here.
[[nodiscard]] bool is_rdma(int domain, int protocol);
// Like socket(AF_NETLINK, type, NETLINK_RDMA).
[[nodiscard]] int open_socket(int type);

// False for nearly every descriptor, at the cost of one load. True: ask is_one() and ask().
[[nodiscard]] bool may_be_one(int fd);
// Whether the descriptor still is a socket of open_socket(): the program may have closed it.
[[nodiscard]] bool is_one(int fd);
// Answers the question of a datagram. Returns like sendto(): its size, or -1 and errno.
ssize_t ask(int fd, Octets datagram);

}  // namespace rrdma::netlink
