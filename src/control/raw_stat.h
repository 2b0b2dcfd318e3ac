// stat() by a raw system call: the preload intercepts the C library's stat for programs.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rrdma::control {

// Returns 0, or -1 with errno set. `flags`: AT_SYMLINK_NOFOLLOW.
[[nodiscard]] inline int raw_stat(const char* path, struct stat& status, int flags = 0) {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, &status, flags));
}

}  // namespace rrdma::control
