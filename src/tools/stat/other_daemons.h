// Daemons of other users in this network namespace. A user's daemon answers that user alone, so neither
// root nor a second user sees its programs in `rrdma stat`; what everybody may know is that it is there:
// /proc/net/unix lists the names that daemons listen on (control/names.h).
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace rrdma::tools {

// In order, each once, without the user of this process; empty where the table cannot be read.
[[nodiscard]] std::vector<uid_t> other_users_with_daemons();

// "Daemons of other users: alice (uid 1000), uid 1001."
// REQUIRES: !users.empty()
[[nodiscard]] std::string other_daemons_text(const std::vector<uid_t>& users);

}  // namespace rrdma::tools
