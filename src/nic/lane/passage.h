// Passage: what a poller does when access to memory was revoked since it looked last. Another lane may be amid an access
// that was checked before; the program must not see anything that was completed since before every lane has given back its lock.
//
// Threads: is_due() under the consumer's lock of the queue.
#pragma once

#include <cstdint>

#include "nic/lane/lanes.h"

namespace rrdma::nic {

class Passage {
 public:
  explicit Passage(Lanes& lanes) : lanes_(lanes) {}

  [[nodiscard]] bool is_due() const { return lanes_.memory().revocations() != seen_; }
  // Locks the consumer's lock when nothing is due any more. REQUIRES: no lane's lock.
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
