// Feed: a source of posts that is not a program of this process: the kernel's door. The thread of the lane
// waits for it as for a link, and takes what it has before each look at the links. So a request is on its way
// without a switch to another thread.
#pragma once

#include "base/instant.h"

namespace rrdma::nic {

class Feed {
 public:
  virtual ~Feed() = default;
  // Readable while there is something to take.
  [[nodiscard]] virtual int fd() const = 0;
  // The same, and costs a few loads. REQUIRES: the lane's lock.
  [[nodiscard]] virtual bool pending() const = 0;
  // Posts to the engine, and does not block. REQUIRES: the lane's lock. The lane transmits afterwards.
  virtual void take(Instant now) = 0;
};

}  // namespace rrdma::nic
