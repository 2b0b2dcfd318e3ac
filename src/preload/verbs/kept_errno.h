// KeptErrno: a successful call leaves errno unchanged. Data path calls never touch it on hardware, and
// programs rely on that: rsockets set it to EWOULDBLOCK, post a message, and read it afterwards.
#pragma once

#include <cerrno>

namespace rrdma::verbs {

class KeptErrno {
 public:
  KeptErrno() : place_(&errno), value_(*place_) {}
  ~KeptErrno() { *place_ = value_; }
  // Makes the call fail with this error.
  int set(int error) { return value_ = error; }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

 private:
  int* const place_;  // looked up once
  int value_;
};

}  // namespace rrdma::verbs
