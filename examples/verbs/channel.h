// Channel: what one connection needs beside its queue pair: a completion queue, registered memory, and
// the receives that are posted into it. Every wait is for a completion; a completion with an error ends
// the program with the status' own words.
//
// The memory of one channel, in one region:
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

// Where the peer may read, write and count.
struct RemoteMemory {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};

class Channel {
 public:
  static constexpr std::uint32_t kDepth = 16;       // requests of each kind that are under way at most
  static constexpr std::uint32_t kWordOctets = 64;  // a short message fits always, and counters are aligned

  // Steps: completion queue, memory region. REQUIRES: the domain outlives this.
  Channel(ibv_pd* domain, std::uint32_t size, bool events, Narrator& narrator);

  // What ibv_create_qp and rdma_create_qp are to be asked for.
  [[nodiscard]] ibv_qp_init_attr queue_pair_wish() const;
  // The queue pair is not owned. Posts all receives; REQUIRES: the QP is in INIT or later.
  void attach(ibv_qp* queue_pair);

  [[nodiscard]] std::span<std::uint8_t> source() { return {memory_.data(), size_}; }
  [[nodiscard]] std::span<std::uint8_t> target() { return {memory_.data() + size_, size_}; }
  [[nodiscard]] RemoteMemory exposed() const {
    return {reinterpret_cast<std::uintptr_t>(memory_.data() + size_), region_->rkey};
  }

  // Each posts one signaled request. REQUIRES: fewer than kDepth are under way.
  void send(std::uint32_t octets);
  void write(const RemoteMemory& to, std::uint32_t octets);
  void read(const RemoteMemory& from, std::uint32_t octets);
  // The old value arrives at the start of source().
  void fetch_add(const RemoteMemory& counter, std::uint64_t amount);
  void compare_swap(const RemoteMemory& counter, std::uint64_t expected, std::uint64_t wanted);

  // Until at most so many requests are under way.
  void wait_under_way(std::uint32_t most);
  // The next message; valid until the next call, which posts its slot again.
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
  std::int64_t open_slot_ = -1;  // whose message the caller is looking at
};

}  // namespace examples
