// Cost: bounds the CPU time and the memory that one message may cost. An attacker chooses the message; a
// target that uses this class aborts if one message exceeds the limits. It counts the time of the thread, so
// a busy machine changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rrdma::fuzz {

// Sanitizers slow everything down about ten times, so the limits catch unbounded growth, not slow code.
struct CostLimit {
  std::int64_t ms = 500;
  std::size_t octets = std::size_t{8} << 20;
};

// Bytes from operator new that this thread has not freed.
std::int64_t taken_octets();

// Measures this thread from construction to destruction, and aborts beyond the limit.
class Cost {
 public:
  explicit Cost(CostLimit limit = {});
  Cost(const Cost&) = delete;
  Cost& operator=(const Cost&) = delete;
  ~Cost();

 private:
  const CostLimit limit_;
  const std::int64_t began_ns_;
  const std::int64_t taken_;
};

}  // namespace rrdma::fuzz
