// Channel: the resources of a connection besides its queue pair: a completion queue, registered memory, and
// posted receives. Every wait is for a completion. A failed completion ends the program with the text of its
// status.
//
// The memory of a channel, in one region:
//   source (size) | target (size): what the peer reads, writes, counts in | kDepth receive slots
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "examples/verbs/narrator.h"

namespace examples {

struct DestroyQueue {
  void operator()(ibv_cq* queue) const { ibv_destroy_cq(queue); }
};
struct DestroyChannel {
  void operator()(ibv_comp_channel* channel) const { ibv_destroy_comp_channel(channel); }
};
struct DeregisterMemory {
  void operator()(ibv_mr* region) const { ibv_dereg_mr(region); }
};

// The memory that the peer may read, write and count in.
struct RemoteMemory {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};

class Channel {
 public:
  static constexpr std::uint32_t kDepth = 16;       // the most requests of each kind in flight
  static constexpr std::uint32_t kWordOctets = 64;  // always fits a short message, and aligns counters

  // Steps: completion queue, memory region. REQUIRES: the domain outlives this.
  Channel(ibv_pd* domain, std::uint32_t size, bool events, Narrator& narrator);

  // The attributes for ibv_create_qp and rdma_create_qp.
  [[nodiscard]] ibv_qp_init_attr queue_pair_wish() const;
  // Does not own the queue pair. Posts all receives. REQUIRES: the QP is in INIT or later.
  void attach(ibv_qp* queue_pair);

  [[nodiscard]] std::span<std::uint8_t> source() { return {memory_.data(), size_}; }
  [[nodiscard]] std::span<std::uint8_t> target() { return {memory_.data() + size_, size_}; }
  [[nodiscard]] RemoteMemory exposed() const {
    return {reinterpret_cast<std::uintptr_t>(memory_.data() + size_), region_->rkey};
  }

  // Each posts one signaled request. REQUIRES: fewer than kDepth are in flight.
  void send(std::uint32_t octets);
  void write(const RemoteMemory& to, std::uint32_t octets);
  void read(const RemoteMemory& from, std::uint32_t octets);
  // The previous value arrives at the start of source().
  void fetch_add(const RemoteMemory& counter, std::uint64_t amount);
  void compare_swap(const RemoteMemory& counter, std::uint64_t expected, std::uint64_t wanted);

  // Waits until at most this many requests are in flight.
  void wait_under_way(std::uint32_t most);
  // The next message. Valid until the next call, which reposts its slot.
  std::span<const std::uint8_t> next_message();

 private:
  void post(ibv_send_wr& request, void* local, std::uint32_t octets);
  void post_receive(std::uint64_t slot);
  [[nodiscard]] std::uint8_t* slot_memory(std::uint64_t slot) {
    return memory_.data() + 2 * std::size_t{size_} + slot * slot_octets_;
  }
  void take_completions();
  void sleep_until_event();

  struct Arrived {
    std::uint64_t slot;
    std::uint32_t octets;
  };

  const std::uint32_t size_;
  const std::uint32_t slot_octets_;
  std::vector<std::uint8_t> memory_;
  std::unique_ptr<ibv_comp_channel, DestroyChannel> events_;
  std::unique_ptr<ibv_cq, DestroyQueue> completions_;
  std::unique_ptr<ibv_mr, DeregisterMemory> region_;
  ibv_qp* queue_pair_ = nullptr;
  std::uint32_t under_way_ = 0;
  std::deque<Arrived> arrived_;
  std::int64_t open_slot_ = -1;  // slot of the message that the caller holds
};

}  // namespace examples
