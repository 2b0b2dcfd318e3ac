// Pair: two hosts with one QP each, connected in virtual time, and a way to lose one specific packet. Each
// side has one megabyte of registered memory, filled with its own pattern, and records its completions and
// events.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "objects/completion_queue.h"
#include "objects/work_queue.h"
#include "sim/pattern.h"
#include "sim/world.h"
#include "wire/transport_packet.h"

namespace rrdma::scenario {

struct PairOptions {
  transport::QpType type = transport::QpType::kRc;
  std::uint8_t mtu_code = 3;  // 1024
  std::uint8_t timeout = 10;  // 4.2 ms
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;  // 10 us
  std::uint8_t max_reads = 4;
  std::uint8_t max_destination_reads = 4;
  std::uint32_t psn_a = 100;
  std::uint32_t psn_b = 5000;
  std::uint32_t queue_entries = 64;
  std::uint32_t shared_entries = 0;  // b takes receives from a shared queue of this size
  std::uint32_t completion_entries = 1024;
  std::uint32_t access =
      objects::kLocalWrite | objects::kRemoteWrite | objects::kRemoteRead | objects::kRemoteAtomic;
  bool signal_all = true;
  sim::HostConfig host;
};

class Side final : public sim::Application,
                   private objects::CompletionListener,
                   private objects::LimitListener {
 public:
  static constexpr std::size_t kMemoryOctets = 1 << 20;

  Side(sim::World& world, const PairOptions& options, std::uint64_t pattern);
  ~Side() override;

  // Requests. Offsets are into `memory` of this side and of the peer; the wr_id is `id`.
  void send(std::uint64_t id, std::uint32_t length, std::uint8_t flags = 0) {
    request(id, objects::SendOpcode::kSend, 0, length, 0, flags);
  }
  void write(std::uint64_t id, std::uint32_t from, std::uint32_t to, std::uint32_t length,
             std::uint8_t flags = 0) {
    request(id, objects::SendOpcode::kWrite, from, length, to, flags);
  }
  void read(std::uint64_t id, std::uint32_t into, std::uint32_t from, std::uint32_t length,
            std::uint8_t flags = 0) {
    request(id, objects::SendOpcode::kRead, into, length, from, flags);
  }
  void fetch_add(std::uint64_t id, std::uint32_t into, std::uint32_t at, std::uint64_t operand);
  void request(std::uint64_t id, objects::SendOpcode opcode, std::uint32_t local, std::uint32_t length,
               std::uint32_t remote, std::uint8_t flags);
  transport::PostError post(const objects::SendEntry& entry, std::uint32_t local, std::uint32_t length);
  void receive(std::uint64_t id, std::uint32_t at, std::uint32_t length);
  [[nodiscard]] objects::SendEntry entry(std::uint64_t id, objects::SendOpcode opcode,
                                         std::uint32_t remote = 0, std::uint8_t flags = 0) const;
  void destroy();
  bool modify(transport::QpAttributes attributes, std::uint32_t mask);
  bool to_state(transport::QpState state);

  // Observations so far.
  [[nodiscard]] std::vector<std::uint64_t> ids() const;
  [[nodiscard]] std::string statuses() const;  // "1:success 2:flushed"
  [[nodiscard]] std::size_t count(transport::QpEvent event) const;
  [[nodiscard]] bool holds(std::uint32_t at, const Side& other, std::uint32_t from,
                           std::uint32_t length) const;
  [[nodiscard]] bool untouched(std::uint32_t at, std::uint32_t length) const;
  std::uint64_t word(std::uint32_t at) const { return load_native<std::uint64_t>(memory.data() + at); }

  bool on_turn(sim::Host& host, Instant now) override;
  void on_qp_event(sim::Host& host, transport::QueuePair& qp, transport::QpEvent event) override;
  void on_request_failed(sim::Host& host, transport::QueuePair& qp,
                         const transport::FailedRequest& failed) override;
  void on_requests_flushed(sim::Host&, transport::QueuePair&, std::uint32_t sends,
                           std::uint32_t receives) override {
    flushed_sends += sends;
    flushed_receives += receives;
  }

  sim::World& world;
  sim::Host& host;
  std::uint64_t pattern;
  std::vector<std::uint8_t> memory;
  objects::MemoryRegion* region = nullptr;
  std::unique_ptr<objects::CompletionQueue> queue;
  std::unique_ptr<objects::ReceiveQueue> shared;
  transport::QueuePair* qp = nullptr;
  Side* peer = nullptr;
  std::vector<objects::Completion> completions;
  std::vector<transport::QpEvent> events;
  struct Failed {
    transport::FailedRequest request;
    Instant since;
    std::vector<transport::Attempt> attempts;
  };
  std::vector<Failed> failures;
  std::uint32_t flushed_sends = 0;
  std::uint32_t flushed_receives = 0;
  std::uint32_t limits = 0;
  std::uint32_t overflows = 0;
  bool polls = true;
  std::function<void(const objects::Completion&)> on_each;  // may post

 private:
  void on_completion(objects::CompletionQueue&) override {}
  void on_overflow(objects::CompletionQueue&) override { ++overflows; }
  void on_limit(objects::ReceiveQueue&) override { ++limits; }
};

class Pair {
 public:
  using Match = std::function<bool(const wire::TransportHeaders&)>;

  explicit Pair(const PairOptions& options = {});

  // Loses the packets from that side that match: `count` in total, after the first `skip` ones.
  void lose(const Side& from, Match match, std::uint32_t count = 1, std::uint32_t skip = 0);
  // Loses everything from that side from now on.
  void silence(const Side& from) {
    lose(
        from, [](const wire::TransportHeaders&) { return true; }, 0xffffffff);
  }
  void run(Duration time = seconds(5));

  sim::World world;
  Side a;
  Side b;

 private:
  struct Loss {
    link::HostIndex from;
    Match match;
    std::uint32_t skip;
    std::uint32_t left;
  };
  std::vector<Loss> losses_;
};

// Packets to lose.
inline Pair::Match step_is(wire::Step step) {
  return [step](const wire::TransportHeaders& headers) { return headers.bth.opcode.step() == step; };
}
inline Pair::Match positive_ack() {
  return [](const wire::TransportHeaders& h) {
    return h.bth.opcode.step() == wire::Step::kAcknowledge && h.aeth.is_ack();
  };
}
inline Pair::Match nak() {
  return [](const wire::TransportHeaders& h) {
    return h.bth.opcode.step() == wire::Step::kAcknowledge && h.aeth.is_nak();
  };
}
inline Pair::Match psn_is(std::uint32_t psn) {
  return [psn](const wire::TransportHeaders& h) { return h.bth.psn == wire::Psn(psn); };
}

}  // namespace rrdma::scenario
