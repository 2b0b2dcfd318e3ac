// Finds the holder of UDP port 4791 if it is taken: reads /proc/net/udp and /proc/net/udp6, and explains the
// result. Needs no privilege; invisible holders are reported as unknown.
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

// All sockets on the port, of both families. `sockets` is 0 if none is visible.
[[nodiscard]] PortHolder find_port_holder();

// A group of sockets of this user's earlier daemon that programs still keep alive.
[[nodiscard]] bool is_own_orphaned_group(const PortHolder& holder);

// "alice (uid 1000)", or "uid 1000".
[[nodiscard]] std::string describe_user(uid_t uid);

// The state of a network that is missing because the port is taken.
[[nodiscard]] control::NetworkState explain_port_taken(const PortHolder& holder);
// ... by programs of this uid in another PID namespace.
[[nodiscard]] control::NetworkState explain_other_container();
// ... because another daemon holds the lock of the network namespace.
[[nodiscard]] control::NetworkState explain_lock_taken(uid_t uid, pid_t pid);
// ... because a step failed.
[[nodiscard]] control::NetworkState explain_failure(const char* step, int error);

}  // namespace rrdma::daemon
