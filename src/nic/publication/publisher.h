// Publisher: keeps a lane's part of the process page (control/process_page.h) true: the counters of engine and links, each
// device's part of the engine's, and one row for each QP. The data path counts in plain integers; what came to them is added to the page a few times
// a second, and only while something happens. Many QPs are published by and by, a few at each call: nobody waits for
// all of them. Several lanes of a process add to the same counters.
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
#include "objects/memory.h"
#include "transport/engine.h"

namespace rrdma::nic {

class Publisher {
 public:
  static constexpr Duration kInterval = milliseconds(100);
  // Both outlive it. `memory` is null where another lane tells of it.
  Publisher(control::ProcessPage& page, const objects::MemoryTable* memory);

  void handle_qp_changed(transport::QueuePair& qp, bool destroyed);
  // Copies the counters if the last time was a while ago. Returns when to call again: what has happened since
  // must become visible although nothing more happens.
  Instant publish(const transport::Engine& engine, std::span<link::Link* const> links, Instant now);
  // The counters as they are, whenever the last time was: the last ones of a lane.
  void publish_sums(const transport::Engine& engine, std::span<link::Link* const> links);

 private:
  struct Counter {
    std::atomic<std::uint64_t>* on_page = nullptr;
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
  struct Listed {
    transport::QueuePair* qp;
    control::QpRow* row;
    // As they were at the beginning: an XRC target changes its own with each message.
    const objects::CompletionQueue *send_cq, *receive_cq;
    std::uint16_t send_number, receive_number;
  };
  struct NumberedQueue {
    std::uint16_t number;
    std::uint32_t uses;
  };
  void list(transport::QueuePair& qp);
  void strike_out(transport::QueuePair& qp);
  std::uint16_t take_number(const objects::CompletionQueue* queue);
  void give_number_back(const objects::CompletionQueue* queue);
  void publish_engine(const transport::CountersByDevice& counters);
  std::vector<Counter>& parts_of(std::size_t device);
  void publish_links(std::span<link::Link* const> links);
  LinkTotal& link_total(std::string_view name);

  control::ProcessPage& page_;
  const objects::MemoryTable* const memory_;
  std::vector<Counter> engine_counters_;            // before all others: they have parts
  std::vector<std::vector<Counter>> device_parts_;  // by number; those of none in particular are none
  Counter memory_keys_, completion_queues_;
  std::vector<LinkTotal> link_totals_;
  std::vector<Listed> listed_;
  std::unordered_map<std::uint32_t, std::size_t> places_;  // in listed_, by QPN
  std::unordered_map<const objects::CompletionQueue*, NumberedQueue> queues_;
  std::size_t next_ = 0;  // in listed_: those before it have been published in this round
  Instant last_{};
};

}  // namespace rrdma::nic
