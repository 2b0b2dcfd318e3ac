// Who holds UDP port 4791 when we cannot have it: what /proc/net/udp and /proc/net/udp6 show, and the
// sentences about it. Nothing here needs a privilege; what cannot be seen is said to be unknown.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "control/messages.h"

namespace rrdma::daemon {

struct PortHolder {
  unsigned sockets = 0;
  uid_t uid = 0;
  bool is_kernel = false;  // a socket without an inode: no process has it open
};

// All sockets on the port, of both families. `sockets` is 0 when none can be seen.
[[nodiscard]] PortHolder find_port_holder();

// A group of sockets that this user's earlier daemon made and that programs still keep alive.
[[nodiscard]] bool is_own_orphaned_group(const PortHolder& holder);

// "alice (uid 1000)", or "uid 1000".
[[nodiscard]] std::string describe_user(uid_t uid);

// The state of a network that is missing because the port is taken.
[[nodiscard]] control::NetworkState explain_port_taken(const PortHolder& holder);
// ... because the lock of the network namespace is held by another daemon.
[[nodiscard]] control::NetworkState explain_lock_taken(uid_t uid, pid_t pid);
// ... because a step failed.
[[nodiscard]] control::NetworkState explain_failure(const char* step, int error);

}  // namespace rrdma::daemon
