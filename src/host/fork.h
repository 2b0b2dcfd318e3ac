// ForkMark: detects whether this process is a forked child of the process that created the mark. Threads,
// sockets and locks do not survive a fork, so objects that depend on them are dead in the child. The first
// mark also installs a handler that closes fork_closed_descriptors (base/own_descriptors.h) in every child.
#pragma once

#include <atomic>

namespace rrdma::host {

class ForkMark {
 public:
  ForkMark();
  // Hot: every entry point calls it.
  [[nodiscard]] bool forked() const { return generation_ != generations_.load(std::memory_order_relaxed); }

 private:
  static void note_child();
  static inline std::atomic<unsigned> generations_{0};
  unsigned generation_;
};

}  // namespace rrdma::host
