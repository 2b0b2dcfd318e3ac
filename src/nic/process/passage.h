// Passage: makes a poller wait until every lane has left accesses that began before a revocation of memory
// rights. Another lane may be in the middle of an access that was checked earlier. The program must not see
// later completions before every lane has released its lock.
//
// Threads: is_due() under the consumer's lock of the queue.
#pragma once

#include <cstdint>

#include "nic/process/lanes.h"

namespace rrdma::nic {

class Passage {
 public:
  explicit Passage(Lanes& lanes) : lanes_(lanes) {}

  [[nodiscard]] bool is_due() const { return lanes_.memory().revocations() != seen_; }
  // Returns with the consumer's lock held and nothing due. REQUIRES: no lane's lock.
  template <typename Lock>
  void lock(Lock& consumer) {
    consumer.lock();
    while (is_due()) [[unlikely]] {
        const std::uint64_t revocations = lanes_.memory().revocations();
        consumer.unlock();
        lanes_.pass_through();
        consumer.lock();
        seen_ = revocations;
      }
  }

 private:
  Lanes& lanes_;
  std::uint64_t seen_ = 0;
};

}  // namespace rrdma::nic
