// The path of the program that this process runs.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <string>

namespace rrdma::host {

// Empty if it cannot be found. A system call: the C library's function may be one of the preloaded library's
// hooks.
[[nodiscard]] inline std::string own_executable() {
  std::array<char, 4096> path{};  // GCC 11 takes it for uninitialized
  const long size = ::syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path.data(), path.size());
  return size > 0 ? std::string(path.data(), static_cast<std::size_t>(size)) : std::string();
}

}  // namespace rrdma::host
