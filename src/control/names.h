// The abstract unix names by which programs and daemons find each other. Abstract names belong to the
// network namespace, as UDP port 4791 does, and vanish with their last holder.
//
//   rrdma.net          whoever holds this name may hold port 4791: the one lock of a network namespace,
//                      without a uid in it. A system daemon serves every user here.
//   rrdma.user.UID     a user's own daemon, with the network or without.
//   rrdma.start.UID    held while somebody starts that daemon, so that a hundred programs start one.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/owned_fd.h"

namespace rrdma::control {

inline constexpr std::string_view kNetworkName = "rrdma.net";
[[nodiscard]] std::string user_name(uid_t uid);
[[nodiscard]] std::string start_name(uid_t uid);

// A socket that is connected to the name; invalid and errno (ECONNREFUSED: nobody is there).
[[nodiscard]] OwnedFd connect_to(std::string_view name);

// A listening socket that holds the name; invalid and errno (EADDRINUSE: somebody holds it).
[[nodiscard]] OwnedFd listen_on(std::string_view name);

}  // namespace rrdma::control
