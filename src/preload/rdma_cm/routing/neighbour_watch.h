// NeighbourWatch: waits for next hops that are not known yet, as the kernel's rdma_cm does between
// rdma_resolve_addr and its event. Its thread exists only while a wait is pending, because most next hops are
// known.
//
// Threads: any. Lives as long as its process; the child of a fork creates its own (Station).
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

  // Calls `done` once, on the watch's thread: when the neighbour is known, or at the deadline. If no thread
  // can be created, calls it at once on this thread, as if the neighbour were known.
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
  // Removes and returns the finished waits with their results. Seeks neighbours that are still unknown.
  std::vector<std::pair<Done, bool>> look(Instant now);

  std::mutex mutex_;
  std::vector<Wait> waits_;
  bool running_ = false;
};

}  // namespace rrdma::rdma_cm
