// ForkMark: whether this process is a child of the one that made the mark. Threads, sockets and locks do not survive a
// fork, so what stands on them is dead in the child. With the first mark, descriptors that must not live on there
// (base/own_descriptors.h) are closed in every child from then on.
#pragma once

#include <atomic>

namespace rrdma::host {

class ForkMark {
 public:
  ForkMark();
  // Hot: the doors ask at every call.
  [[nodiscard]] bool forked() const { return generation_ != generations_.load(std::memory_order_relaxed); }

 private:
  static void note_child();
  static inline std::atomic<unsigned> generations_{0};
  unsigned generation_;
};

}  // namespace rrdma::host
