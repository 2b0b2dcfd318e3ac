// Exit statuses of every subcommand of `rrdma`, as their --help and manual pages state them. `rrdma run`
// is the exception: once the program has started, its status is passed on.
#pragma once

namespace rrdma::tools {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFoundFault = 1;  // the command did its work, and what it looked at is not right
inline constexpr int kExitFailure = 2;  // the command could not do its work: wrong argument, no such file, …
// As env(1) and its kin, because smaller ones are the program's own.
inline constexpr int kExitRunFailure = 125;

}  // namespace rrdma::tools
