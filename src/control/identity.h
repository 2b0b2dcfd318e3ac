// Who is at the other end of a unix socket, and is it the same user?
//
// The kernel says (SO_PEERCRED), in the numbers of our own user namespace. A user that our namespace
// does not map appears as the overflow uid, 65534, which is also the number of the user nobody: there,
// equal numbers prove nothing. In a namespace that maps every uid they do. Elsewhere an unprivileged
// process asks the kernel in another way: it may signal only processes of its own user.
#pragma once

#include <sys/types.h>

namespace rrdma::control {

struct PeerIdentity {
  pid_t pid = 0;  // 0: the peer lives in a PID namespace that we cannot see
  uid_t uid = static_cast<uid_t>(-1);
};

// The peer of a connected socket; of a listening daemon, the one that called listen.
[[nodiscard]] PeerIdentity peer_identity(int socket);

// False when the uid stands for "some user that this namespace has no number for".
[[nodiscard]] bool uid_is_unambiguous(uid_t uid);

// The peer is certainly the user that this process runs as.
[[nodiscard]] bool is_own_user(const PeerIdentity& peer);

// Both are certainly one user (who need not be ours).
[[nodiscard]] bool is_one_user(const PeerIdentity& a, const PeerIdentity& b);

}  // namespace rrdma::control
