// World: any number of hosts in virtual time, each with memory, an engine and an end of the simulated
// network. It owns time and turns: packets and timers wake a host, its application gets a turn, then the
// engine transmits. Every event is folded into one hash, so that two runs of one seed can be compared across
// machines.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/instant.h"
#include "base/prng.h"
#include "link/sim/sim_network.h"
#include "objects/memory.h"
#include "transport/engine.h"

namespace rrdma::sim {

class World;
class Host;

// The program on a host.
class Application {
 public:
  virtual ~Application() = default;
  // Packets and timers were handled: polls and posts. True if there may be more to do at once.
  virtual bool on_turn(Host& host, Instant now) = 0;
  virtual void on_qp_event(Host&, transport::QueuePair&, transport::QpEvent) {}
  virtual void on_request_failed(Host&, transport::QueuePair&, const transport::FailedRequest&) {}
  virtual void on_requests_flushed(Host&, transport::QueuePair&, std::uint32_t, std::uint32_t) {}
};

class Host final : private link::Receiver, private transport::EventSink {
 public:
  Host(World& world, link::HostIndex index, const transport::EngineConfig& config, std::uint64_t secret);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] link::HostIndex index() const { return index_; }
  // A QPN that was never used before: packets of a destroyed QP must not reach a new one.
  wire::Qpn fresh_qpn() { return wire::Qpn(next_qpn_++); }
  [[nodiscard]] objects::Path path_to(const Host& other, bool ipv6, wire::Qpn local, wire::Qpn remote) const;

  // As a lane does after a post: sends at once what is simple to send.
  void transmit_posted(transport::QueuePair& qp, Instant now);

  // Schedules a turn at `at` or earlier.
  void wake(Instant at) { wake_at_ = at < wake_at_ ? at : wake_at_; }
  // Suspends the host: packets wait in the receive buffer, timers fire late.
  void pause_until(Instant at) { paused_until_ = at; }
  [[nodiscard]] Instant due() const;

  objects::MemoryTable memory;
  objects::ProtectionDomain pd;
  transport::Engine engine;
  Application* application = nullptr;
  std::size_t burst_max = 32;  // packets handled in one turn
  Duration wake_delay_max;     // the longest delay between a packet and the turn that it triggers
  bool lossless = false;       // Plan::lossless

 private:
  friend class World;
  void turn(Instant now);
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override;
  void on_qp_event(transport::QueuePair& qp, transport::QpEvent event) override;
  void on_request_failed(transport::QueuePair& qp, const transport::FailedRequest& failed) override {
    if (application != nullptr) application->on_request_failed(*this, qp, failed);
  }
  void on_requests_flushed(transport::QueuePair& qp, std::uint32_t sends, std::uint32_t receives) override {
    if (application != nullptr) application->on_requests_flushed(*this, qp, sends, receives);
  }

  World& world_;
  link::HostIndex index_;
  link::SimLink& link_;
  Instant wake_at_ = kNever;
  Instant paused_until_;
  Instant turn_at_;  // the current time, during a turn
  std::uint32_t next_qpn_;
};

struct HostConfig {
  link::HostProperties network;
  transport::EngineConfig engine;
};

class World final : private link::PacketObserver {
 public:
  explicit World(std::uint64_t seed);
  ~World();

  Host& add_host(const HostConfig& config);
  Host& host(std::size_t index) { return *hosts_[index]; }
  [[nodiscard]] std::size_t host_count() const { return hosts_.size(); }
  link::SimNetwork& network() { return network_; }
  [[nodiscard]] Instant now() const { return now_; }
  Prng& prng() { return prng_; }

  // Calls `action` at that time, before the hosts have their turns of that instant.
  void at(Instant when, std::function<void()> action);
  // Advances to the next instant with an event, unless it is after `limit`. False if there is none.
  bool step(Instant limit);
  void run_until(Instant limit);
  void run_for(Duration time) { run_until(now_ + time); }
  // Runs until `done()`. False if `limit` passes or no events are left first.
  bool run_until(const std::function<bool()>& done, Instant limit);

  // The event log: delivered packets, and entries of applications.
  void log(std::uint64_t a, std::uint64_t b);
  [[nodiscard]] std::uint64_t log_hash() const { return log_hash_; }

  // The first violation ends the run.
  void violate(std::string promise);
  [[nodiscard]] const std::optional<std::string>& violation() const { return violation_; }

  // The observer sees every packet. It must outlive the world or its last step.
  void add_observer(link::PacketObserver& observer) { observers_.push_back(&observer); }

 private:
  void on_sent(const link::PacketView& packet, Instant now) override;
  void on_fate(const link::PacketView& packet, link::Fate fate, Instant now) override;

  Prng prng_;
  link::SimNetwork network_;
  std::deque<std::unique_ptr<Host>> hosts_;
  link::EventHeap<std::function<void()>> actions_;
  Instant now_;
  std::uint64_t log_hash_ = 0x2545f4914f6cdd1dULL;
  std::uint32_t turns_without_time_ = 0;
  std::optional<std::string> violation_;
  std::vector<link::PacketObserver*> observers_;
};

}  // namespace rrdma::sim
