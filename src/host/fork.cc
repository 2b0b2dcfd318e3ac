#include "host/fork.h"

#include <pthread.h>

#include "base/own_descriptors.h"

namespace rrdma::host {

ForkMark::ForkMark() {
  static const bool registered = pthread_atfork(nullptr, nullptr, &note_child) == 0;
  static_cast<void>(registered);
  generation_ = generations_.load(std::memory_order_relaxed);
}

void ForkMark::note_child() {
  generations_.fetch_add(1, std::memory_order_relaxed);
  close_marked_after_fork();
}

}  // namespace rrdma::host
