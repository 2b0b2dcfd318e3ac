// Publisher: keeps a lane's part of the process page (control/process_page.h) up to date. The part holds the
// counters of engine and links, the engine's counters for each device, and one row for each QP. The data path
// counts in plain integers. Their increments are added to the page a few times a second, and only during
// activity. Rows of many QPs are published in small portions, so that no call takes long. Several lanes of a
// process add to the same counters.
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
  // Both must outlive it. `memory` is null if another lane publishes it.
  Publisher(control::ProcessPage& page, const objects::MemoryTable* memory);

  void handle_qp_changed(transport::QueuePair& qp, bool destroyed);
  // Copies the counters if the last time was a while ago. Returns when to call again: events since then must
  // become visible even if nothing more happens.
  Instant publish(const transport::Engine& engine, std::span<link::Link* const> links, Instant now);
  // Publishes the counters at once, whenever the last time was: the final values of a lane.
  void publish_sums(const transport::Engine& engine, std::span<link::Link* const> links);

 private:
  struct Counter {
    std::atomic<std::uint64_t>* on_page = nullptr;
    std::uint64_t added = 0;  // by this lane
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
    // As at creation: an XRC target changes its own with each message.
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
  void publish_links(std::span<link::Link* const> links, const objects::Staging& staging);
  LinkTotal& link_total(std::string_view name);

  control::ProcessPage& page_;
  const objects::MemoryTable* const memory_;
  std::vector<Counter> engine_counters_;            // first, because they have parts
  std::vector<std::vector<Counter>> device_parts_;  // by number; none for device 0
  Counter memory_keys_, completion_queues_;
  std::vector<LinkTotal> link_totals_;
  std::vector<Listed> listed_;
  std::unordered_map<std::uint32_t, std::size_t> places_;  // index in listed_, by QPN
  std::unordered_map<const objects::CompletionQueue*, NumberedQueue> queues_;
  std::size_t next_ = 0;  // index in listed_: rows before it were published in this round
  Instant last_{};
};

}  // namespace rrdma::nic
