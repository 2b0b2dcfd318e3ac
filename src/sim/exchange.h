// Exchange: a whole run. It builds the world of a plan, connects the endpoints and runs traffic while the
// network misbehaves. Then it stops the faults and requires that everything completes in the time that the
// timers allow. Connections that fail on the way are torn down and rebuilt.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "sim/answer_judge.h"
#include "sim/coverage.h"
#include "sim/endpoint.h"
#include "sim/overrun.h"
#include "sim/plan.h"
#include "sim/site.h"
#include "sim/world.h"

namespace rrdma::sim {

// Latencies in buckets of 1/8 of a power of two.
class LatencyHistogram {
 public:
  void add(Duration time);
  // The upper end of the bucket that contains this quantile (in thousandths).
  [[nodiscard]] Duration percentile(std::uint32_t per_mille) const;
  [[nodiscard]] std::uint64_t count() const { return count_; }
  void merge(const LatencyHistogram& other);

 private:
  std::array<std::uint64_t, 64 * 8> buckets_{};
  std::uint64_t count_ = 0;
};

struct Totals {
  std::uint64_t messages_posted = 0;
  std::uint64_t messages_succeeded = 0;
  std::uint64_t messages_failed = 0;
  std::uint64_t octets_moved = 0;  // of messages that succeeded
  Instant end;
  LatencyHistogram latency;
};

class Exchange {
 public:
  explicit Exchange(const Plan& plan);
  ~Exchange();

  // Runs to the end. False if a guarantee was violated: see world().violation().
  bool run();
  // Runs one step, for callers that show progress. False at the end.
  bool step();
  // Ends the run early: coverage and totals cover what was seen so far.
  void abandon();

  World& world() { return world_; }
  [[nodiscard]] const Plan& plan() const { return plan_; }
  // One line for each endpoint with its state.
  [[nodiscard]] std::string standing() const;
  [[nodiscard]] bool calm() const { return calm_; }
  [[nodiscard]] const Coverage& coverage() const { return coverage_; }
  [[nodiscard]] const Totals& totals() const { return totals_; }

  // For endpoints.
  Prng& prng() { return prng_; }
  Message& new_message();
  // REQUIRES: nothing refers to the message any more.
  void recycle(Message& message) { free_messages_.push_back(&message); }
  void broken(Connection& connection);
  AnswerJudge& judge() { return judge_; }
  Coverage& met() { return coverage_; }
  Totals& count() { return totals_; }
  Site& site(std::size_t host) { return *sites_[host]; }
  Endpoint* random_datagram_peer(const Endpoint& from);
  // True if a partition may have separated these two hosts.
  [[nodiscard]] bool was_partitioned(const Endpoint& a, const Endpoint& b) const;
  // True if the network neither duplicates nor reorders packets.
  [[nodiscard]] bool keeps_order() const {
    return plan_.faults.duplicate_ppm == 0 && plan_.faults.reorder_ppm == 0;
  }

 private:
  void connect(Connection& connection);
  void tear_down(Connection& connection);
  void calm_down();
  void plan_faults();
  void set_faults(const FaultPhase& phase, const link::FaultSpec& faults);
  void watch();
  [[nodiscard]] bool finished() const;
  void final_checks();
  void collect_coverage();
  [[nodiscard]] Duration completion_bound(const TrafficPlan& traffic) const;

  Plan plan_;
  World world_;
  AnswerJudge judge_;
  Prng prng_;
  std::vector<std::unique_ptr<Site>> sites_;
  std::deque<Endpoint> endpoints_;
  std::deque<Connection> connections_;
  std::deque<Message> messages_;
  std::vector<Message*> free_messages_;
  std::uint64_t next_message_ = 1;
  std::unique_ptr<Overrun> overrun_;
  Coverage coverage_;
  Totals totals_;
  bool calm_ = false;
  Instant calm_since_;
  bool ended_ = false;
  std::uint64_t steps_ = 0;
};

}  // namespace rrdma::sim
