// Finds daemons of other users in this network namespace. A daemon answers only its own user, so `rrdma stat`
// shows no programs of other users, even to root. Only the existence of a daemon is public: /proc/net/unix
// lists the names on which daemons listen (control/names.h).
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace rrdma::tools {

// Sorted, without duplicates and without the user of this process. Empty if the table cannot be read.
[[nodiscard]] std::vector<uid_t> other_users_with_daemons();

// "Daemons of other users: alice (uid 1000), uid 1001." REQUIRES: !users.empty()
[[nodiscard]] std::string other_daemons_text(const std::vector<uid_t>& users);

}  // namespace rrdma::tools
