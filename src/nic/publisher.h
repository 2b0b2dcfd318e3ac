// Publisher: keeps a lane's part of the process page (control/process_page.h) true: the counters of engine and links, and
// one row for each QP. The data path counts in plain integers; what came to them is added to the page a few times
// a second, and only while something happens. Several lanes of a process add to the same counters.
//
// Threads: all calls under the lane's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/instant.h"
#include "control/process_page.h"
#include "link/link.h"
#include "transport/engine.h"

namespace rrdma::nic {

class Publisher {
 public:
  explicit Publisher(control::ProcessPage& page);

  void handle_qp_changed(transport::QueuePair& qp, bool destroyed);
  // Copies the counters if the last time was a while ago. Returns when to call again: what has happened since
  // must become visible although nothing more happens.
  Instant publish(const transport::Engine& engine, std::span<link::Link* const> links, Instant now);

 private:
  struct Counter {
    std::atomic<std::uint64_t>* on_page;
    std::uint64_t added = 0;  // of this lane
    void publish(std::uint64_t value) {
      on_page->fetch_add(value - added, std::memory_order_relaxed);
      added = value;
    }
  };
  struct LinkTotal {
    std::string name;
    Counter counter;
    std::uint64_t sum;
  };
  void publish_links(std::span<link::Link* const> links);
  LinkTotal& link_total(std::string_view name);

  control::ProcessPage& page_;
  std::vector<Counter> engine_counters_;
  std::vector<LinkTotal> link_totals_;
  std::unordered_map<std::uint32_t, control::QpRow*> rows_;
  Instant last_{};
};

}  // namespace rrdma::nic
