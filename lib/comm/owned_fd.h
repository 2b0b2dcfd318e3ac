// OwnedFd: a file descriptor that is closed with its owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int number) : number_(number) {}
  OwnedFd(OwnedFd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~OwnedFd() {
    if (number_ >= 0) ::close(number_);
  }
  [[nodiscard]] int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
