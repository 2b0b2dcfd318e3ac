// Exit statuses of all subcommands of `rrdma`, as --help and the manual pages document them. `rrdma run` is
// an exception: once the program has started, its status is passed on.
#pragma once

namespace rrdma::tools {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFoundFault = 1;  // the command worked and found a problem
inline constexpr int kExitFailure = 2;     // the command failed: wrong argument, missing file, …
// As in env(1), because the program itself may use lower values.
inline constexpr int kExitRunFailure = 125;

}  // namespace rrdma::tools
