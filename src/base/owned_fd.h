// OwnedFd: a file descriptor with one owner, closed by a raw system call (see raw_syscall.h). Every
// descriptor that RRDMA makes inside a program passes through lifted(): 0, 1 and 2 belong to the
// program even while it has them closed.
#pragma once

#include <cerrno>
#include <utility>

#include "base/fork_closed.h"
#include "base/raw_syscall.h"

namespace rrdma {

class [[nodiscard]] OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), fork_closed_(std::exchange(other.fork_closed_, false)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    if (this != &other) {
      reset(std::exchange(other.fd_, -1));
      fork_closed_ = std::exchange(other.fork_closed_, false);
    }
    return *this;
  }
  ~OwnedFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  explicit operator bool() const { return valid(); }
  [[nodiscard]] int release() {
    if (std::exchange(fork_closed_, false)) unmark_fork_closed(fd_);
    return std::exchange(fd_, -1);
  }
  // errno stays as it was, so that a failed step can be cleaned up before it is reported.
  void reset(int fd = -1) {
    if (fd_ >= 0) {
      const int saved = errno;
      if (fork_closed_) unmark_fork_closed(fd_);
      raw::close(fd_);
      errno = saved;
    }
    fork_closed_ = false;
    fd_ = fd;
  }
  // A child of this process shall not have it.
  void close_at_fork() {
    mark_fork_closed(fd_);
    fork_closed_ = true;
  }

  // A second descriptor of the same open file; invalid (and errno) on failure.
  [[nodiscard]] OwnedFd duplicate() const { return OwnedFd(raw::fcntl(fd_, F_DUPFD_CLOEXEC, 3)); }

 private:
  int fd_ = -1;
  bool fork_closed_ = false;
};

// Takes ownership of `fd` (which may be -1, as a failed call returned it) and moves it above 2.
inline OwnedFd lifted(int fd) {
  OwnedFd owned(fd);
  if (fd < 0 || fd > 2) return owned;
  return owned.duplicate();
}

}  // namespace rrdma
