// OwnedFd: a file descriptor with one owner, closed by a raw system call (see raw_syscall.h), and known to be
// ours as long as it lives (own_descriptors.h).
//
// Every descriptor that RRDMA makes inside a program passes through lifted(): 0, 1 and 2 belong to the program
// even while it has them closed, and so do the low numbers, which it may count on, give away or write over
// (dup2). Those that the program is told of pass through above_standard() instead.
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
  // errno stays as it was, so that a failed step can be cleaned up before it is reported.
  void reset(int fd = -1) {
    if (fd_ >= 0) {
      const int saved = errno;
      forget();  // before its number can mean something else
      raw::close(fd_);
      errno = saved;
    }
    fd_ = fd;
    own_descriptors.add(fd_);
  }
  // A child of this process shall not have it.
  void close_at_fork() {
    fork_closed_descriptors.add(fd_);
    fork_closed_ = true;
  }

  // A second descriptor of the same open file; invalid (and errno) on failure.
  [[nodiscard]] OwnedFd duplicate() const { return OwnedFd(raw::fcntl(fd_, F_DUPFD_CLOEXEC, 3)); }

 private:
  void forget() {
    own_descriptors.remove(fd_);
    if (std::exchange(fork_closed_, false)) fork_closed_descriptors.remove(fd_);
  }
  int fd_ = -1;
  bool fork_closed_ = false;
};

// Takes ownership of `fd` (which may be -1, as a failed call returned it) and moves it above 2.
inline OwnedFd above_standard(int fd) {
  OwnedFd owned(fd);
  if (fd < 0 || fd > 2) return owned;
  return owned.duplicate();
}

// The same, and out of the program's way as far as its limit allows.
inline OwnedFd lifted(int fd) {
  constexpr unsigned long kOutOfTheWay = 256;
  if (fd < 0) return OwnedFd();
  const int high = raw::fcntl(fd, F_DUPFD_CLOEXEC, kOutOfTheWay);
  if (high < 0) return above_standard(fd);
  raw::close(fd);
  return OwnedFd(high);
}

}  // namespace rrdma
