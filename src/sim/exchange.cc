#include "sim/exchange.h"

#include <algorithm>
#include <bit>

#include "wire/rnr_timer.h"

namespace rrdma::sim {

using transport::QpType;

namespace {

constexpr std::uint32_t kArenaOctets = 6 * 1024 * 1024;
constexpr std::uint32_t kSlotsMin = 12;
constexpr std::uint32_t kSlotsMax = 48;
constexpr std::uint32_t kSharedEntries = 32;

}  // namespace

// ---- latency ----

void LatencyHistogram::add(Duration time) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(time.ns, 8));
  const auto power = static_cast<unsigned>(std::bit_width(ns)) - 1;
  ++buckets_[power * 8 + (ns >> (power - 3) & 7)];
  ++count_;
}

Duration LatencyHistogram::percentile(std::uint32_t per_mille) const {
  const std::uint64_t rank = (count_ * per_mille + 999) / 1000;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    sum += buckets_[i];
    if (sum >= rank && sum != 0) return nanoseconds(static_cast<std::int64_t>((i % 8 + 9) << (i / 8 - 3)));
  }
  return {};
}

void LatencyHistogram::merge(const LatencyHistogram& other) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
}

// ---- building ----

Exchange::Exchange(const Plan& plan)
    : plan_(plan),
      world_(plan.seed),
      judge_([this](std::string promise) { world_.violate(std::move(promise)); }),
      prng_(plan.seed ^ 0x5bd1e995c0ffeeULL) {
  world_.add_observer(judge_);
  for (const HostConfig& config : plan_.hosts) {
    Host& host = world_.add_host(config);
    host.burst_max = plan_.burst_max;
    host.wake_delay_max = plan_.wake_delay_max;
    host.lossless = plan_.lossless;
  }
  const std::uint32_t octets = message_octets_max(plan_) + 40;
  const std::uint32_t slots = std::clamp(kArenaOctets / (octets + 256) / 5, kSlotsMin, kSlotsMax);
  std::vector<std::uint32_t> completions(plan_.hosts.size(), 64);
  std::vector<std::uint32_t> endpoints(plan_.hosts.size());
  std::vector<std::uint32_t> receives(plan_.hosts.size(), 1);
  bool shared = false;
  for (const TrafficPlan& traffic : plan_.traffic) {
    for (const std::uint32_t host : {traffic.host_a, traffic.host_b}) {
      completions[host] += traffic.send_entries + traffic.receive_entries + 64;
      ++endpoints[host];
      receives[host] += traffic.shared_receive ? 0 : traffic.receive_entries;
      shared |= traffic.shared_receive;
    }
  }
  for (std::size_t i = 0; i < plan_.hosts.size(); ++i) {
    const std::uint32_t receive_slots = receives[i] + (shared ? 2 * kSharedEntries : 0);
    sites_.push_back(std::make_unique<Site>(*this, world_.host(i), octets, slots + 8 * endpoints[i],
                                            receive_slots, completions[i]));
    sites_.back()->size_shared(kSharedEntries, 4);
  }
  plan_faults();
  for (const TrafficPlan& traffic : plan_.traffic) {
    Connection& connection = connections_.emplace_back();
    connection.plan = &traffic;
    const std::uint32_t to_b = traffic.both_ways ? traffic.messages / 2 : traffic.messages;
    connection.a =
        &endpoints_.emplace_back(*this, connection, site(traffic.host_a), traffic, traffic.psn_a, to_b);
    connection.b = &endpoints_.emplace_back(*this, connection, site(traffic.host_b), traffic, traffic.psn_b,
                                            traffic.messages - to_b);
    connection.a->peer = connection.b;
    connection.b->peer = connection.a;
    connect(connection);
  }
  if (plan_.overflow_queue)
    overrun_ = std::make_unique<Overrun>(*this, world_.host(0), world_.host(plan_.hosts.size() - 1));
}

void Exchange::plan_faults() {
  world_.network().set_faults(plan_.faults);
  for (const PartitionPlan& cut : plan_.partitions)
    world_.network().partition(cut.from, cut.to, cut.begin, cut.end);
  for (const FaultPhase& phase : plan_.phases) {
    world_.at(phase.begin, [this, &phase] { set_faults(phase, phase.faults); });
    if (phase.end != kNever) world_.at(phase.end, [this, &phase] { set_faults(phase, plan_.faults); });
  }
  for (const PausePlan& pause : plan_.pauses) {
    world_.at(pause.at, [this, pause] {
      if (calm_) return;
      ++coverage_.pauses;
      world_.host(pause.host).pause_until(world_.now() + pause.time);
    });
  }
}

void Exchange::set_faults(const FaultPhase& phase, const link::FaultSpec& faults) {
  if (calm_) return;
  const auto hosts = static_cast<std::uint32_t>(world_.host_count());
  for (std::uint32_t from = 0; from < hosts; ++from) {
    for (std::uint32_t to = 0; to < hosts; ++to) {
      if (from != to && phase.from.value_or(from) == from && phase.to.value_or(to) == to)
        world_.network().set_faults(from, to, faults);
    }
  }
}

Exchange::~Exchange() {
  for (Endpoint& endpoint : endpoints_) endpoint.abandon();
}

Message& Exchange::new_message() {
  Message* message = nullptr;
  if (free_messages_.empty()) {
    message = &messages_.emplace_back();
  } else {
    message = free_messages_.back();
    free_messages_.pop_back();
    *message = {};
  }
  message->id = next_message_++;
  return *message;
}

Endpoint* Exchange::random_datagram_peer(const Endpoint& from) {
  std::vector<Endpoint*> others;
  for (Endpoint& endpoint : endpoints_) {
    if (&endpoint != &from && endpoint.plan().type == QpType::kUd && endpoint.plan().ipv6 == from.plan().ipv6)
      others.push_back(&endpoint);
  }
  return others.empty() ? nullptr : others[prng_.below(others.size())];
}

bool Exchange::was_partitioned(const Endpoint& a, const Endpoint& b) const {
  const std::uint32_t x = a.site().host.index();
  const std::uint32_t y = b.site().host.index();
  return std::any_of(plan_.partitions.begin(), plan_.partitions.end(),
                     [&](const PartitionPlan& cut) {
                       return (cut.from == x && cut.to == y) || (cut.from == y && cut.to == x);
                     }) ||
         std::any_of(plan_.pauses.begin(), plan_.pauses.end(),
                     [&](const PausePlan& pause) { return pause.host == x || pause.host == y; });
}

void Exchange::connect(Connection& connection) {
  const TrafficPlan& traffic = *connection.plan;
  Endpoint& a = *connection.a;
  Endpoint& b = *connection.b;
  connection.error_excused = traffic.type == QpType::kRc && traffic.max_reads > traffic.max_destination_reads;
  a.open();
  b.open();
  a.to_receive(b);
  const std::uint32_t incarnation = connection.incarnation;
  const auto stagger = [&] {
    return world_.now() + nanoseconds(static_cast<std::int64_t>(
                              prng_.below(static_cast<std::uint64_t>(traffic.stagger_max.ns) + 1)));
  };
  const Instant first = stagger();
  const Instant second = stagger();
  const auto later = [&](Instant when, auto action) {
    world_.at(when, [&connection, incarnation, action] {
      if (connection.incarnation == incarnation) action();
    });
  };
  later(std::min(first, second), [&a, &b] {
    if (b.state() == Endpoint::State::kConnecting) b.to_receive(a);
  });
  later(world_.now(), [&a] { a.to_send(); });
  later(std::max(first, second), [&b] { b.to_send(); });
  if (!traffic.learns_late) return;
  for (Endpoint* endpoint : {&a, &b}) {
    later(std::max(first, second) + nanoseconds(static_cast<std::int64_t>(prng_.below(2'000'000))),
          [endpoint] { endpoint->learn_features(); });
  }
}

// ---- failing and rebuilding ----

void Exchange::broken(Connection& connection) {
  if (connection.breaking) return;
  connection.breaking = true;
  const TrafficPlan& traffic = *connection.plan;
  std::int64_t delay_ns = 0;
  switch (prng_.below(4)) {
    case 0: delay_ns = static_cast<std::int64_t>(prng_.below(5'000)); break;
    case 1: delay_ns = static_cast<std::int64_t>(prng_.below(200'000)); break;
    case 2: delay_ns = static_cast<std::int64_t>(prng_.below(5'000'000)); break;
    default:
      delay_ns = traffic.ack_timeout().ns * (traffic.retry_count + 3);
      break;  // until the peer runs out of retries
  }
  world_.at(world_.now() + nanoseconds(delay_ns), [this, &connection] { tear_down(connection); });
}

void Exchange::tear_down(Connection& connection) {
  const bool keep = prng_.below(3) == 0;
  connection.a->close(keep);
  connection.b->close(keep);
  if (world_.violation()) return;
  connection.a->settle();
  connection.b->settle();
  ++connection.incarnation;
  connection.breaking = false;
  ++coverage_.rebuilt;
  if (connection.a->done() && connection.b->done()) return;
  // A QP that is reused under its old number must not receive packets of its previous incarnation.
  const Duration rest =
      keep ? plan_.packet_lifetime : nanoseconds(static_cast<std::int64_t>(prng_.below(50'000)));
  const std::uint32_t incarnation = connection.incarnation;
  world_.at(world_.now() + rest, [this, &connection, incarnation] {
    if (connection.incarnation == incarnation) connect(connection);
  });
}

// ---- running ----

void Exchange::calm_down() {
  calm_ = true;
  calm_since_ = world_.now();
  world_.network().stop_faults();
  for (std::size_t i = 0; i < world_.host_count(); ++i) {
    world_.host(i).pause_until(world_.now());
    world_.host(i).wake(world_.now());
  }
  for (const auto& site : sites_) {
    if (std::string wrong = site->check_memory(false); !wrong.empty()) world_.violate(std::move(wrong));
  }
}

Duration Exchange::completion_bound(const TrafficPlan& traffic) const {
  const Duration silence = traffic.ack_timeout() * (4 * (traffic.retry_count + 2));
  const Duration not_ready =
      nanoseconds(static_cast<std::int64_t>(wire::rnr_delay_ns(traffic.min_rnr_timer))) * 16;
  return silence + not_ready + plan_.packet_lifetime * 4 + milliseconds(800);
}

void Exchange::watch() {
  if (!calm_) {
    const bool all_posted =
        std::all_of(endpoints_.begin(), endpoints_.end(), [](const Endpoint& e) { return e.posted_all(); });
    if (all_posted || world_.now() - Instant{} >= plan_.turbulence_max) calm_down();
    return;
  }
  for (const Endpoint& endpoint : endpoints_) {
    const Instant oldest = endpoint.oldest();
    if (oldest == kNever || endpoint.state() == Endpoint::State::kClosed) continue;
    if (world_.now() - std::max(oldest, calm_since_) > completion_bound(endpoint.plan())) {
      world_.violate(endpoint.name() + ": a request is not complete long after all faults have ended");
    }
  }
}

bool Exchange::finished() const {
  return std::all_of(endpoints_.begin(), endpoints_.end(), [](const Endpoint& e) { return e.done(); }) &&
         std::none_of(connections_.begin(), connections_.end(),
                      [](const Connection& c) { return c.breaking; });
}

bool Exchange::step() {
  if (ended_) return false;
  if (plan_.run_time.ns != 0 && world_.now() - Instant{} >= plan_.run_time) {
    for (Endpoint& endpoint : endpoints_) endpoint.stop_posting();
  }
  const bool more = !finished();
  if (more) {
    const Instant limit = calm_ ? kNever : Instant{} + plan_.turbulence_max;
    if (!world_.step(limit) && !world_.violation()) {
      if (calm_) {
        world_.violate("nothing happens any more, and not all requests are complete");
      } else {
        world_.run_until(limit);
      }
    }
    if (++steps_ % 64 == 0 || world_.now() - Instant{} >= plan_.turbulence_max) watch();
    if (!world_.violation()) return true;
  }
  if (!world_.violation()) final_checks();
  ended_ = true;
  collect_coverage();
  return false;
}

void Exchange::abandon() {
  if (ended_) return;
  ended_ = true;
  collect_coverage();
}

bool Exchange::run() {
  while (step()) {
  }
  return !world_.violation();
}

// The last duplicates may still be in flight; they must change nothing.
void Exchange::final_checks() {
  totals_.end = world_.now();
  world_.run_until(world_.now() + plan_.packet_lifetime);
  for (const auto& site : sites_) {
    if (world_.violation()) return;
    if (std::string wrong = site->check_memory(true); !wrong.empty()) world_.violate(std::move(wrong));
  }
  for (Connection& connection : connections_) {
    connection.a->close(false);
    connection.b->close(false);
    if (world_.violation()) return;
    connection.a->settle();
    connection.b->settle();
  }
  if (overrun_ != nullptr) {
    if (std::string wrong = overrun_->finish(); !wrong.empty()) world_.violate(std::move(wrong));
  }
  world_.run_until(world_.now() + plan_.packet_lifetime);
  if (world_.network().corruption_missed() != 0)
    world_.violate("a packet with a flipped bit was taken for good");
  if (world_.network().in_flight() != 0) world_.violate("packets are left in the network");
  for (std::size_t i = 0; i < sites_.size() && !world_.violation(); ++i) {
    Site& site = *sites_[i];
    site.end_shared_receives();
    if (site.host.engine.qp_count() != 0) world_.violate("QPs are left in the engine");
    if (std::string wrong = site.check_memory(false); !wrong.empty()) world_.violate(std::move(wrong));
    if (std::string wrong = site.check_nothing_left(); !wrong.empty()) world_.violate(std::move(wrong));
  }
}

std::string Exchange::standing() const {
  std::string text;
  for (const Endpoint& endpoint : endpoints_) text += endpoint.standing() + "\n";
  return text;
}

void Exchange::collect_coverage() {
  for (std::size_t i = 0; i < link::kFateCount; ++i)
    coverage_.fates[i] = world_.network().count(static_cast<link::Fate>(i));
  for (std::size_t i = 0; i < world_.host_count(); ++i) {
    const transport::Counters& counters = world_.host(i).engine.counters();
    for (const auto& name : transport::kCounterNames) coverage_.engine.*name.member += counters.*name.member;
  }
  if (totals_.end.ns == 0) totals_.end = world_.now();
}

}  // namespace rrdma::sim
