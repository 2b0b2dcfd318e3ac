// Timer: base of objects that a context calls at a point in time, unless cancelled earlier.
#pragma once

#include <cstddef>

#include "rrdma/comm/limit.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

class Timer {
 public:
  [[nodiscard]] bool set() const { return place_ != 0; }

 protected:
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  virtual ~Timer() = default;
  virtual void expire() = 0;

 private:
  friend class Timers;
  Clock::time_point at_{};
  std::size_t place_ = 0;  // index in the heap, from 1; 0: not set
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
