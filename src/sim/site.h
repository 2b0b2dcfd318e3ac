// Site: the application state of one host: registered memory, completion queues, a shared receive queue,
// words for atomics, and the endpoints. Completions are collected into an inbox, which the oracle may read,
// and go to the endpoint that they name when the host has its turn. A completion that names no endpoint
// arrived after destroy.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "objects/completion_queue.h"
#include "objects/work_queue.h"
#include "sim/arena.h"
#include "sim/atomic_history.h"
#include "sim/message.h"
#include "sim/world.h"

namespace rrdma::sim {

class Exchange;

class Site final : public Application, private objects::CompletionListener, private objects::LimitListener {
 public:
  Site(Exchange& owner, Host& owner_host, std::uint32_t octets_max, std::uint32_t depth,
       std::uint32_t receive_slots, std::uint32_t completions);
  ~Site() override;

  bool on_turn(Host& host, Instant now) override;
  void on_qp_event(Host& host, transport::QueuePair& qp, transport::QpEvent event) override;

  // Moves all available completions into the inbox.
  void collect();
  // Dispatches the inbox. True if it held something.
  bool dispatch();
  // Number of receive completions for the QP with this status in the inbox.
  [[nodiscard]] std::size_t waiting_receives(wire::Qpn qpn, objects::Status status);
  // True if the inbox holds an error of a send request. It may come from another queue than the receives that
  // it flushed.
  [[nodiscard]] bool waiting_send_error(wire::Qpn qpn);
  objects::CompletionQueue& completion_queue(std::size_t which) {
    return *queues_[which % queues_.size()].queue;
  }
  void add(wire::Qpn qpn, Endpoint& endpoint) { endpoints_[qpn.value] = &endpoint; }
  // The QP is gone: nothing of it may appear any more.
  void forget(wire::Qpn qpn);

  // Shared receive queue.
  objects::ReceiveQueue& shared_queue() { return *shared_queue_; }
  Receive* find_shared(std::uint64_t id);
  void fill_shared(bool starve);
  void size_shared(std::uint32_t entries, std::uint32_t sges);
  void end_shared(Receive& receive);
  // The queue is about to go: checks that the receives still posted there are untouched.
  void end_shared_receives();
  // Checks that every slot is free and every queue is empty.
  [[nodiscard]] std::string check_nothing_left();

  // Posts nothing and returns false if no slot is free.
  bool make_receive(Receive& receive, std::uint32_t octets, std::uint32_t pieces_max);
  using SgeArray = std::array<objects::Sge, kPiecesMax>;
  std::span<const objects::Sge> sges(const Slot& slot, const Layout& layout, std::uint32_t key,
                                     SgeArray& list) const;

  // Checks that words match their histories and that memory at rest is untouched.
  [[nodiscard]] std::string check_memory(bool everything);

  struct Word {
    std::uint64_t at;  // offset in the arena
    AtomicHistory history;
  };
  [[nodiscard]] std::uint64_t word_value(const Word& word) {
    return load_native<std::uint64_t>(arena.host(word.at));
  }

  Exchange& exchange;
  Host& host;
  Arena arena;
  std::uint32_t sources, sinks, receives, targets, foreign, read_only, word_pool;  // pools
  objects::ProtectionDomain other_domain;
  objects::MemoryRegion* local_region = nullptr;
  objects::MemoryRegion* target_region = nullptr;
  objects::MemoryRegion* foreign_region = nullptr;    // of another protection domain
  objects::MemoryRegion* read_only_region = nullptr;  // grants remote read only
  objects::MemoryRegion* word_region = nullptr;
  std::vector<Word> words;

 private:
  struct Queue {
    std::unique_ptr<objects::CompletionQueue> queue;
    bool armed = false;
    bool armed_solicited = false;
    bool event_due = false;  // a completion that counts has arrived since it was armed
    bool event_seen = false;
  };
  void on_completion(objects::CompletionQueue& queue) override;
  void on_overflow(objects::CompletionQueue& queue) override;
  void on_limit(objects::ReceiveQueue& queue) override;
  objects::MemoryRegion* enroll(std::uint32_t first_pool, std::uint32_t last_pool,
                                objects::ProtectionDomain& pd, std::uint32_t access);
  void collect(Queue& queue);
  void rearm(Queue& queue);

  std::vector<Queue> queues_;
  std::deque<objects::Completion> inbox_;
  std::map<std::uint32_t, Endpoint*> endpoints_;
  std::unique_ptr<objects::ReceiveQueue> shared_queue_;
  std::vector<Receive> shared_receives_;  // by the lower bits of their id; null slot: not posted
  bool limit_armed_ = false;
  std::uint64_t next_receive_ = 0;
};

}  // namespace rrdma::sim
