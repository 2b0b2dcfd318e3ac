// KeptErrno: a call that succeeds leaves errno as it was. The calls of the data path never touch it on hardware, and
// programs came to rely on that: rsockets set it to EWOULDBLOCK, post a message, and look at it afterwards.
#pragma once

#include <cerrno>

namespace rrdma::verbs {

class KeptErrno {
 public:
  KeptErrno() : value_(errno) {}
  ~KeptErrno() { errno = value_; }
  // The call fails with this after all.
  int set(int error) { return value_ = error; }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

 private:
  int value_;
};

}  // namespace rrdma::verbs
