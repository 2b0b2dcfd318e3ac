// Who is at the other end of a unix socket, and is it the same user?
//
// The kernel says who (SO_PEERCRED), in the numbers of our own namespaces. Equal numbers are not the same
// user: two containers may both run as uid 0, or as any other number, without trusting each other. One
// user is one uid in one user namespace and one PID namespace; what cannot be shown to be the same, is
// not. A user that our namespace does not map appears as the overflow uid, 65534, which is also the number
// of the user nobody: there an unprivileged process asks the kernel in another way, since it may signal
// only processes of its own user.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace rrdma::control {

// The namespaces of a process, by inode; 0: not known.
struct Namespaces {
  std::uint64_t user = 0;
  std::uint64_t pid = 0;
  friend bool operator==(const Namespaces&, const Namespaces&) = default;
  [[nodiscard]] bool known() const { return user != 0 && pid != 0; }
};

struct PeerIdentity {
  pid_t pid = 0;  // 0: the peer lives in a PID namespace that we cannot see
  uid_t uid = static_cast<uid_t>(-1);
  Namespaces namespaces;
};

// Asked every time: a process may move. Not known where there is no /proc.
[[nodiscard]] Namespaces own_namespaces();
// Of a process that we can see. A process that hides them (it is not dumpable, or another user's) is placed
// by what it cannot hide: how deep its PID namespace is, and its map of uids.
[[nodiscard]] Namespaces namespaces_of(pid_t pid);

// The peer of a connected socket; of a listening daemon, the one that called listen.
[[nodiscard]] PeerIdentity peer_identity(int socket);

// False when the uid stands for "some user that this namespace has no number for".
[[nodiscard]] bool uid_is_unambiguous(uid_t uid);

// The peer is certainly the user that this process runs as.
[[nodiscard]] bool is_own_user(const PeerIdentity& peer);

// Root of this process's own namespaces.
[[nodiscard]] bool is_root_here(const PeerIdentity& peer);

// Both are certainly one user (who need not be ours).
[[nodiscard]] bool is_one_user(const PeerIdentity& a, const PeerIdentity& b);

}  // namespace rrdma::control
