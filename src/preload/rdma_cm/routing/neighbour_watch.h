// NeighbourWatch: waits for next hops that are not known yet, as the kernel's rdma_cm does between rdma_resolve_addr and
// its event. It has a thread while somebody waits, and none otherwise: most next hops are known.
//
// Threads: any. Lives as long as its process; the child of a fork makes its own (Station).
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "base/instant.h"
#include "preload/rdma_cm/routing/kernel_routes.h"

namespace rrdma::rdma_cm {

class NeighbourWatch {
 public:
  using Done = std::function<void(bool found)>;

  // Calls `done` once, from the thread of the watch: when the neighbour is known, or at the deadline. Where no thread can be
  // made, at once, from this one, as if the neighbour were there.
  void wait(const NextHop& hop, Instant deadline, Done done);

 private:
  struct Wait {
    NextHop hop;
    Instant deadline;
    Instant seek_at;  // the kernel stops asking after some seconds
    Done done;
  };

  bool start();
  void run();
  // What has ended of the waits, with its result; the next look is due after it.
  std::vector<std::pair<Done, bool>> look(Instant now);

  std::mutex mutex_;
  std::vector<Wait> waits_;
  bool running_ = false;
};

}  // namespace rrdma::rdma_cm
