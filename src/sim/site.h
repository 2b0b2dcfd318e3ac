// Site: what an application owns on one host: registered memory, completion queues, a shared receive
// queue, words for atomics, and the endpoints. Completions are collected into an inbox, where the oracle
// may already see them, and handed to the endpoint that they name when the host has its turn; a
// completion that names none came after destroy.
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

  // Takes all completions that are there into the inbox.
  void collect();
  // Hands out what is in the inbox. True if there was something.
  bool dispatch();
  // What waits in the inbox for a QP: receive completions with this status.
  [[nodiscard]] std::size_t waiting_receives(wire::Qpn qpn, objects::Status status);
  // Or an error of one of its requests, which may lie in another queue than the receives that it flushed.
  [[nodiscard]] bool waiting_send_error(wire::Qpn qpn);
  objects::CompletionQueue& completion_queue(std::size_t which) {
    return *queues_[which % queues_.size()].queue;
  }
  void add(wire::Qpn qpn, Endpoint& endpoint) { endpoints_[qpn.value] = &endpoint; }
  // The QP is gone: nothing of it may be seen any more.
  void forget(wire::Qpn qpn);

  // Shared receive queue.
  objects::ReceiveQueue& shared_queue() { return *shared_queue_; }
  Receive* find_shared(std::uint64_t id);
  void fill_shared(bool starve);
  void size_shared(std::uint32_t entries, std::uint32_t sges);
  void end_shared(Receive& receive);
  // The queue goes: what is still posted there must be as it was.
  void end_shared_receives();
  // Every slot is back and every queue is empty.
  [[nodiscard]] std::string check_nothing_left();

  // Posts nothing if no slot is free.
  bool make_receive(Receive& receive, std::uint32_t octets, std::uint32_t pieces_max);
  using SgeArray = std::array<objects::Sge, kPiecesMax>;
  std::span<const objects::Sge> sges(const Slot& slot, const Layout& layout, std::uint32_t key,
                                     SgeArray& list) const;

  // Words still hold what their histories say, memory at rest is untouched.
  [[nodiscard]] std::string check_memory(bool everything);

  struct Word {
    std::uint64_t at;  // in the arena
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
  objects::MemoryRegion* read_only_region = nullptr;  // remote read is all that it grants
  objects::MemoryRegion* word_region = nullptr;
  std::vector<Word> words;

 private:
  struct Queue {
    std::unique_ptr<objects::CompletionQueue> queue;
    bool armed = false;
    bool armed_solicited = false;
    bool event_due = false;  // a completion that counts has come since it was armed
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
  std::vector<Receive> shared_receives_;  // by the lower bits of their id; slot null: not posted
  bool limit_armed_ = false;
  std::uint64_t next_receive_ = 0;
};

}  // namespace rrdma::sim
