// OwnedFd: a file descriptor with one owner. It closes the descriptor by a raw system call (raw_syscall.h)
// and keeps it in own_descriptors while it is open.
//
// Every descriptor that RRDMA creates inside a program goes through lifted(). The numbers 0, 1 and 2 belong
// to the program even while they are closed. The other low numbers are the program's too: it may rely on
// them, pass them on or overwrite them (dup2). Descriptors that the program gets to see go through
// above_standard() instead.
#pragma once

#include <cerrno>
#include <utility>

#include "base/own_descriptors.h"
#include "base/raw_syscall.h"

namespace rrdma {

class [[nodiscard]] OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) { own_descriptors.add(fd_); }
  OwnedFd(OwnedFd&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), fork_closed_(std::exchange(other.fork_closed_, false)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
      fork_closed_ = std::exchange(other.fork_closed_, false);
    }
    return *this;
  }
  ~OwnedFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  explicit operator bool() const { return valid(); }
  [[nodiscard]] int release() {
    forget();
    return std::exchange(fd_, -1);
  }
  // Preserves errno, so that an error path can clean up before it reports.
  void reset(int fd = -1) {
    if (fd_ >= 0) {
      const int saved = errno;
      forget();  // before the kernel can reuse the number
      raw::close(fd_);
      errno = saved;
    }
    fd_ = fd;
    own_descriptors.add(fd_);
  }
  // Closes the descriptor in every forked child.
  void close_at_fork() {
    fork_closed_descriptors.add(fd_);
    fork_closed_ = true;
  }

  // A second descriptor for the same open file; invalid, with errno set, on failure.
  [[nodiscard]] OwnedFd duplicate() const { return OwnedFd(raw::fcntl(fd_, F_DUPFD_CLOEXEC, 3)); }

 private:
  void forget() {
    own_descriptors.remove(fd_);
    if (std::exchange(fork_closed_, false)) fork_closed_descriptors.remove(fd_);
  }
  int fd_ = -1;
  bool fork_closed_ = false;
};

// Takes ownership of `fd` (may be -1, the result of a failed call) and moves it above 2.
inline OwnedFd above_standard(int fd) {
  OwnedFd owned(fd);
  if (fd < 0 || fd > 2) return owned;
  return owned.duplicate();
}

// The same, but moves it to 256 or higher if the descriptor limit allows that.
inline OwnedFd lifted(int fd) {
  constexpr unsigned long kOutOfTheWay = 256;
  if (fd < 0) return OwnedFd();
  const int high = raw::fcntl(fd, F_DUPFD_CLOEXEC, kOutOfTheWay);
  if (high < 0) return above_standard(fd);
  raw::close(fd);
  return OwnedFd(high);
}

}  // namespace rrdma
