// The identity of the peer of a unix socket, and whether it is the same user.
//
// The kernel reports the peer (SO_PEERCRED) in the numbers of our own namespaces. Equal numbers do not imply
// the same user: two containers may both run as uid 0, or as any other uid, without trusting each other. A
// user is one uid in one user namespace and one PID namespace; if identity cannot be proved, it is denied. A
// user that our namespace does not map appears as the overflow uid, 65534, which is also the uid of the user
// nobody. In that case an unprivileged process tests whether it may signal the peer: it may signal only
// processes of its own user.
//
// RRDMA_POD=1 widens this for the containers of one pod, which share a network namespace and a uid but not
// their PID namespaces: such a peer counts as the own user for the port and the connection manager. Memory is
// still shared only within one PID namespace, because peers name each other's memory by pid
// (DaemonSession::connect_if).
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace rrdma::control {

// The namespaces of a process, by inode; 0: unknown.
struct Namespaces {
  std::uint64_t user = 0;
  std::uint64_t pid = 0;
  friend bool operator==(const Namespaces&, const Namespaces&) = default;
  [[nodiscard]] bool known() const { return user != 0 && pid != 0; }
};

struct PeerIdentity {
  pid_t pid = 0;  // 0: the peer has ended, or lives in a PID namespace that we cannot see
  uid_t uid = static_cast<uid_t>(-1);
  Namespaces namespaces;
  bool has_ended = false;  // another process has its connection
};

// Read every time, because a process may change its namespaces. Unknown without /proc.
[[nodiscard]] Namespaces own_namespaces();
// Of a process that we can see. If it hides them (it is not dumpable, or another user's), they are inferred
// from the depth of its PID namespace and from its uid map.
[[nodiscard]] Namespaces namespaces_of(pid_t pid);

// The peer of a connected socket; for a daemon, the process that called listen.
[[nodiscard]] PeerIdentity peer_identity(int socket);

// False if the uid stands for a user that this namespace does not map.
[[nodiscard]] bool uid_is_unambiguous(uid_t uid);

// RRDMA_POD=1, in this process.
[[nodiscard]] bool trusts_pod();

// The peer is provably the user of this process; with RRDMA_POD, also its uid in another PID namespace.
[[nodiscard]] bool is_own_user(const PeerIdentity& peer);

// The account that is charged for the peer's share: its user. One user may have thousands of subordinate
// uids (/etc/subuid); they are charged to it, and so is each user of a user namespace that it owns. If the
// owner cannot be found, all such users whose uids may be subordinate are charged together, as
// kUnknownAccount. An owner without a number in /etc/passwd has an account of its own for its subordinate
// uids.
//
// A container is a PID namespace of our user namespace, or a user namespace that our own user made. It is
// charged as a whole, because its root may have every uid. Its account is one of the upper half. With a PID
// namespace, it is that of its outermost process.
//
// Never waits for a server of names. REQUIRES: one thread calls it.
inline constexpr uid_t kUnknownAccount = static_cast<uid_t>(-2);
inline constexpr uid_t kContainerAccounts = uid_t{1} << 31;
[[nodiscard]] uid_t account_of(const PeerIdentity& peer);

// Root of this process's own namespaces.
[[nodiscard]] bool is_root_here(const PeerIdentity& peer);

// Both are provably one user (not necessarily ours): they may share memory.
[[nodiscard]] bool is_one_user(const PeerIdentity& a, const PeerIdentity& b);

// Also with RRDMA_POD, if both are our user: each may see and use what the other has, but for memory.
[[nodiscard]] bool is_one_pod(const PeerIdentity& a, const PeerIdentity& b);

}  // namespace rrdma::control
