// Where programs and daemons find each other; N, P, U are the inodes of the network, PID and user namespace.
//
//   /run/rrdma/net-N.sock                a system daemon, which serves every user: a folder of root's
//   /run/user/UID/rrdma/net-N-P-U.sock,  a user's own daemon, with the network or without: folders that only
//   /tmp/rrdma-UID/net-N-P-U.sock        that user may enter. The .lock beside it is locked while the daemon
//                                        runs, .start while somebody starts it.
//   @rrdma.net, @rrdma.user.UID,         the same by abstract names, for programs that do not see those
//   @rrdma.start.UID                     folders (a root folder of their own)
//
// Abstract names belong to the network namespace, as UDP port 4791 does, and to whoever takes them first:
// they come second, nothing depends on having one, and who connects looks who is there (identity.h).
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
// In the folders that are there and safe, or that could be made: nobody but the user may write in them.
[[nodiscard]] std::vector<std::string> user_paths(uid_t uid);

// A socket that is connected to the path (it begins with a slash) or abstract name; invalid and errno
// (ECONNREFUSED, ENOENT: nobody is there).
[[nodiscard]] OwnedFd connect_to(std::string_view name);

// A listening socket that holds the abstract name; invalid and errno (EADDRINUSE: somebody holds it).
[[nodiscard]] OwnedFd listen_on(std::string_view name);

// The paths of a daemon while it runs: listening sockets, and the locks that say that they are ours.
struct HeldPaths {
  std::vector<OwnedFd> listeners;
  std::vector<OwnedFd> locks;
  std::vector<std::string> paths;
};
// For a user's own daemon. Nothing: another one holds them. No listener: there is no folder for them.
[[nodiscard]] std::optional<HeldPaths> hold_user_paths();
// For a system daemon, which any user may connect to.
[[nodiscard]] std::optional<HeldPaths> hold_system_path();

// Held while this process starts its user's daemon; invalid: another one does.
[[nodiscard]] OwnedFd start_lock();

}  // namespace rrdma::control
