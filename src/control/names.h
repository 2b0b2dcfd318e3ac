// The names by which programs and daemons find each other. N, P, U are the inodes of the network, PID and
// user namespace.
//
//   /run/rrdma/net-N.sock                a system daemon, which serves every user: a directory of root
//   /run/user/UID/rrdma/net-N-P-U.sock,  a user's own daemon, with or without the network: directories that
//   /tmp/rrdma-UID/net-N-P-U.sock        only that user may enter. The .lock beside it is locked while the
//                                        daemon runs, .start from its start until it listens.
//   lab-N-P-U.sock in the same           the user's lab (`rrdma lab`), which has no other name
//   directories
//   @rrdma.net, @rrdma.user.UID,         the same by abstract names, for programs that do not see those
//   @rrdma.start.UID                     directories (they have their own root directory)
//
// Abstract names belong to the network namespace, like UDP port 4791, and to the first process that takes
// them. They are a fallback: nothing depends on holding one, and clients check the identity of the peer
// (identity.h).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/owned_fd.h"

namespace rrdma::control {

inline constexpr std::string_view kNetworkName = "rrdma.net";
[[nodiscard]] std::string user_name(uid_t uid);
[[nodiscard]] std::string start_name(uid_t uid);

[[nodiscard]] std::string system_path();
// In directories that are safe and exist or could be created: only the user may write in them.
[[nodiscard]] std::vector<std::string> user_paths(uid_t uid);

// A socket connected to the path (it begins with a slash) or abstract name; invalid with errno (ECONNREFUSED,
// ENOENT: no listener).
[[nodiscard]] OwnedFd connect_to(std::string_view name);

// A listening socket with the abstract name; invalid with errno (EADDRINUSE: the name is taken).
[[nodiscard]] OwnedFd listen_on(std::string_view name);

// The paths of a running daemon: listening sockets, and the locks that mark them as ours.
struct HeldPaths {
  std::vector<OwnedFd> listeners;
  std::vector<OwnedFd> locks;
  std::vector<std::string> paths;
};
// For a user's own daemon. Empty: another one holds them. No listener: there is no directory for them.
[[nodiscard]] std::optional<HeldPaths> hold_user_paths();
// For a system daemon, which any user may connect to.
[[nodiscard]] std::optional<HeldPaths> hold_system_path();

// For the user's lab, in the same directories. A lab has no name that another user could take.
[[nodiscard]] std::optional<HeldPaths> hold_lab_paths();
[[nodiscard]] std::vector<std::string> lab_paths(uid_t uid);

// The path of the lock that this user's running daemon holds, although it may not listen yet or any more;
// empty: none is seen to run.
[[nodiscard]] std::string lock_of_user_daemon();

// Held while this user's daemon is started. Invalid if another process holds it, with EAGAIN: a process of
// this user; or with EADDRINUSE: there is no directory, and any process may have the name.
[[nodiscard]] OwnedFd start_lock();
// The descriptor by which a daemon that was started (`rrdmad --autostarted`) inherits that lock, if any.
inline constexpr int kStartLockNumber = 3;

}  // namespace rrdma::control
