#include "sim/plan.h"

#include <algorithm>

namespace rrdma::sim {

using transport::QpType;

namespace {

// Larger than anything the engines may have in flight.
constexpr std::uint32_t kRoomyOctets = 16 * 1024 * 1024;
constexpr Duration kReorderMax = microseconds(60);
constexpr std::uint32_t kMessagesMin = 1000;

enum class Weather : std::uint8_t { kCalm, kUnruly, kMild, kCongested, kHarsh };

Weather weather_of(Prng& prng) {
  const auto roll = prng.below(100);
  return roll < 15   ? Weather::kCalm
         : roll < 30 ? Weather::kUnruly     // duplicates, reordering, delays, marks; nothing is lost
         : roll < 70 ? Weather::kMild       // as above, and losses that 7 retries survive
         : roll < 85 ? Weather::kCongested  // queues that overflow
                     : Weather::kHarsh;
}

template <typename T, std::size_t N>
T one_of(Prng& prng, const T (&values)[N]) {
  return values[prng.below(N)];
}

std::uint32_t ppm_up_to(Prng& prng, std::uint32_t most) {
  return prng.below(3) == 0 ? 0 : static_cast<std::uint32_t>(prng.below(most + 1));
}

link::CableProperties random_cable(Prng& prng, bool roomy) {
  static constexpr std::uint64_t kRates[] = {1'000, 10'000, 25'000, 100'000};
  link::CableProperties cable;
  cable.megabits_per_second = one_of(prng, kRates);
  cable.latency = nanoseconds(static_cast<std::int64_t>(prng.between(100, 10'000)));
  cable.jitter = nanoseconds(static_cast<std::int64_t>(prng.below(2) == 0 ? 0 : prng.below(5'000)));
  cable.queue_octets = roomy ? kRoomyOctets : static_cast<std::uint32_t>(prng.between(24, 128)) * 1024;
  if (prng.below(3) == 0) cable.ecn_octets = static_cast<std::uint32_t>(prng.between(4, 64)) * 1024;
  return cable;
}

HostConfig random_host(Prng& prng, Weather weather) {
  HostConfig host;
  const bool roomy = weather != Weather::kCongested;
  host.network.up = random_cable(prng, true);
  host.network.up.queue_octets =
      static_cast<std::uint32_t>(prng.between(16, 256)) * 1024;  // no loss: it pushes back
  host.network.down = random_cable(prng, roomy);
  host.network.receive_octets =
      roomy ? kRoomyOctets : static_cast<std::uint32_t>(prng.between(64, 512)) * 1024;
  host.engine.window_octets_max = std::uint32_t{4096} << prng.below(8);
  host.engine.flight_octets_max = std::uint32_t{16384} << prng.below(8);
  host.engine.early_retransmit_min = microseconds(static_cast<std::int64_t>(prng.between(100, 8'000)));
  return host;
}

link::FaultSpec random_faults(Prng& prng, Weather weather) {
  link::FaultSpec faults;
  if (weather == Weather::kCalm) return faults;
  faults.duplicate_ppm = ppm_up_to(prng, 50'000);
  faults.reorder_ppm = ppm_up_to(prng, 50'000);
  faults.ecn_ppm = ppm_up_to(prng, 20'000);
  if (prng.below(3) == 0) {
    faults.delay = nanoseconds(static_cast<std::int64_t>(prng.below(50'000)));
    faults.delay_spread =
        nanoseconds(static_cast<std::int64_t>(prng.below(static_cast<std::uint64_t>(faults.delay.ns) + 1)));
  }
  const std::uint32_t most = weather == Weather::kHarsh ? 200'000 : weather == Weather::kMild ? 15'000 : 0;
  faults.drop_ppm = ppm_up_to(prng, most);
  faults.corrupt_ppm = ppm_up_to(prng, most / 3);
  return faults;
}

// The longest time from host to host. A roomy queue holds everything that all hosts may have in flight.
// Unreliable QPs are limited only by the number of their messages.
Duration crossing_time(const Plan& plan) {
  std::uint64_t flight = 0;
  for (const HostConfig& host : plan.hosts) flight += host.engine.flight_octets_max + 65536;
  for (const TrafficPlan& traffic : plan.traffic) {
    if (traffic.type != QpType::kRc) flight += std::uint64_t{traffic.messages} * (traffic.octets_max + 100);
  }
  const auto drain = [&](const link::CableProperties& cable) {
    const std::uint64_t octets = std::min<std::uint64_t>(cable.queue_octets, flight);
    return nanoseconds(static_cast<std::int64_t>(octets * 8'000 / cable.megabits_per_second)) +
           cable.latency + cable.jitter;
  };
  Duration worst_up, worst_down;
  for (const HostConfig& host : plan.hosts) {
    worst_up = std::max(worst_up, drain(host.network.up));
    worst_down = std::max(worst_down, drain(host.network.down));
  }
  return worst_up + worst_down + plan.faults.delay * 2 + kReorderMax + plan.wake_delay_max * 2;
}

Mix random_mix(Prng& prng, QpType type) {
  Mix mix{};
  const auto weigh = [&](Operation operation, std::uint8_t most) {
    mix[static_cast<std::size_t>(operation)] = static_cast<std::uint8_t>(prng.below(most + 1u));
  };
  mix[static_cast<std::size_t>(Operation::kSend)] = 1;
  weigh(Operation::kSend, 10);
  mix[static_cast<std::size_t>(Operation::kSend)] += 1;
  weigh(Operation::kSendImmediate, 6);
  if (type == QpType::kUd) return mix;
  weigh(Operation::kWrite, 10);
  weigh(Operation::kWriteImmediate, 6);
  if (type == QpType::kUc) return mix;
  weigh(Operation::kRead, 10);
  weigh(Operation::kCompareSwap, 5);
  weigh(Operation::kFetchAdd, 5);
  weigh(Operation::kFlush, 3);
  weigh(Operation::kAtomicWrite, 3);
  weigh(Operation::kWriteReadBack, 3);
  weigh(Operation::kReadThenWrite, 3);
  weigh(Operation::kReadThenSend, 3);
  if (prng.below(2) == 0) {
    mix[static_cast<std::size_t>(Operation::kBindWindow)] = 3;
    mix[static_cast<std::size_t>(Operation::kLocalInvalidate)] = 2;
    mix[static_cast<std::size_t>(Operation::kSendInvalidate)] = 2;
  }
  return mix;
}

std::uint32_t random_psn(Prng& prng) {
  if (prng.below(2) == 0) return static_cast<std::uint32_t>(0xffffff - prng.below(300));
  return static_cast<std::uint32_t>(prng.below(0x1000000));
}

TrafficPlan random_traffic(Prng& prng, const Plan& plan, Weather weather, QpType type) {
  TrafficPlan traffic;
  traffic.type = type;
  traffic.host_a = static_cast<std::uint32_t>(prng.below(plan.hosts.size()));
  traffic.host_b = static_cast<std::uint32_t>((traffic.host_a + prng.between(1, plan.hosts.size() - 1)) %
                                              plan.hosts.size());
  traffic.ipv6 = prng.below(2) == 0;
  traffic.both_ways = prng.below(4) != 0;
  traffic.mtu_code = static_cast<std::uint8_t>(std::min(prng.between(1, 5), prng.between(1, 5)));
  const std::uint32_t mtu = transport::mtu_octets(traffic.mtu_code);
  traffic.octets_max =
      mtu * static_cast<std::uint32_t>(prng.below(8) == 0 ? prng.between(8, 24) : prng.between(1, 8));
  traffic.octets_max = std::min(traffic.octets_max, 32u * 1024);
  if (type == QpType::kUd) traffic.octets_max = std::min(traffic.octets_max, 4096u);

  traffic.retry_count = weather == Weather::kHarsh ? static_cast<std::uint8_t>(prng.below(8)) : 7;
  traffic.stagger_max =
      prng.below(2) == 0 ? nanoseconds(0) : microseconds(static_cast<std::int64_t>(prng.below(100)));
  traffic.timeout = 4;
  if (weather == Weather::kCalm && prng.below(4) == 0) {
    traffic.timeout = 0;
    traffic.stagger_max = {};
  }
  traffic.min_rnr_timer = static_cast<std::uint8_t>(prng.between(1, 12));
  const bool starves = prng.below(2) == 0;
  traffic.starve_ppm = starves ? static_cast<std::uint32_t>(prng.below(700'000)) : 0;
  traffic.rnr_retry = starves && prng.below(3) == 0 ? static_cast<std::uint8_t>(prng.below(7)) : 7;

  traffic.max_reads = static_cast<std::uint8_t>(prng.between(1, 16));
  traffic.max_destination_reads = static_cast<std::uint8_t>(prng.between(traffic.max_reads, 16));
  if (prng.below(20) == 0) traffic.max_reads = 0;
  if (prng.below(40) == 0) traffic.max_destination_reads = static_cast<std::uint8_t>(prng.below(4));

  traffic.send_entries = static_cast<std::uint32_t>(prng.between(4, 40));
  traffic.receive_entries = static_cast<std::uint32_t>(prng.between(2, 24));
  traffic.sges = static_cast<std::uint32_t>(prng.between(1, 6));
  traffic.inline_octets = static_cast<std::uint32_t>(prng.below(3) == 0 ? 0 : prng.below(1025));
  traffic.signal_all = prng.below(4) == 0;
  traffic.shared_receive = prng.below(4) == 0;
  traffic.psn_a = random_psn(prng);
  traffic.psn_b = random_psn(prng);
  traffic.mix = random_mix(prng, type);
  traffic.unsignaled_ppm = prng.below(3) == 0 ? 0 : static_cast<std::uint32_t>(prng.below(700'000));
  traffic.fence_ppm = prng.below(2) == 0 ? 0 : 100'000;
  traffic.drain_ppm = prng.below(6) == 0 ? 5'000 : 0;
  traffic.provoke_ppm = prng.below(2) == 0 ? 0 : static_cast<std::uint32_t>(prng.below(12'000));
  traffic.burst_max = static_cast<std::uint32_t>(prng.between(1, 12));
  traffic.think_max = nanoseconds(static_cast<std::int64_t>(prng.below(30'000)));
  return traffic;
}

}  // namespace

Duration TrafficPlan::ack_timeout() const {
  return timeout == 0 ? Duration{} : nanoseconds(std::int64_t{4096} << timeout);
}

bool Plan::calm() const {
  if (faults.loses() || faults.duplicate_ppm != 0 || faults.reorder_ppm != 0 || !partitions.empty() ||
      !pauses.empty() || !phases.empty())
    return false;
  return std::all_of(hosts.begin(), hosts.end(), [](const HostConfig& host) {
    return host.network.down.queue_octets >= kRoomyOctets && host.network.receive_octets >= kRoomyOctets;
  });
}

std::uint32_t message_octets_max(const Plan& plan) {
  std::uint32_t most = 0;
  for (const TrafficPlan& traffic : plan.traffic) most = std::max(most, traffic.octets_max);
  return most;
}

namespace {

// Decides which hosts know that their peers are RRDMA, and further settings of the engines. It uses a
// generator of its own, so that strict worlds stay the same.
void decide_kinship(Plan& plan) {
  Prng prng(plan.seed ^ 0x6b696e7368697030ULL);
  for (HostConfig& host : plan.hosts) {
    host.engine.probe_min = microseconds(static_cast<std::int64_t>(prng.between(50, 2'000)));
    host.engine.probe_unmeasured = host.engine.probe_min * static_cast<std::int64_t>(prng.between(1, 8));
    const auto roll = prng.below(8);
    if (roll < 4) host.engine.congestion = static_cast<transport::CongestionKind>(1 + prng.below(5));
    host.engine.strict = prng.below(8) == 0;  // although the peer believes that it understands arrival maps
    host.engine.fixed_window_packets = static_cast<std::uint32_t>(prng.between(1, 64));
  }
  for (TrafficPlan& traffic : plan.traffic) {
    const auto roll = prng.below(8);
    traffic.features_a = roll < 6 ? objects::kFeatureArrivals : 0;
    traffic.features_b = roll < 5 || roll == 6 ? objects::kFeatureArrivals : 0;
    traffic.learns_late = prng.below(4) == 0;
  }
}

}  // namespace

void make_strict(Plan& plan) {
  for (HostConfig& host : plan.hosts) host.engine.strict = true;
  for (TrafficPlan& traffic : plan.traffic) {
    traffic.features_a = traffic.features_b = 0;
    traffic.learns_late = false;
  }
}

// A silent peer has lost nothing, so a timeout must outlast the longest queue.
void make_lossless(Plan& plan) {
  constexpr std::uint8_t kTimeout = 14;
  plan.lossless = true;
  plan.harsh = false;
  plan.faults = {};
  plan.phases.clear();
  plan.partitions.clear();
  plan.pauses.clear();
  for (HostConfig& host : plan.hosts) {
    host.network.down.queue_octets = host.network.receive_octets = kRoomyOctets;
    for (link::CableProperties* cable : {&host.network.up, &host.network.down}) {
      cable->megabits_per_second = 100'000;
      cable->ecn_octets = 0;
    }
  }
  for (TrafficPlan& traffic : plan.traffic) {
    if (traffic.timeout != 0) traffic.timeout = kTimeout;
    traffic.retry_count = 7;
    traffic.features_a = traffic.features_b = 0;
    traffic.learns_late = false;
  }
}

Plan plan_of(std::uint64_t seed) {
  Prng prng(seed);
  Plan plan;
  plan.seed = seed;
  const Weather weather = weather_of(prng);
  plan.harsh = weather == Weather::kHarsh;
  const std::uint64_t hosts = prng.below(2) == 0 ? 2 : prng.between(2, 4);
  for (std::uint64_t i = 0; i < hosts; ++i) plan.hosts.push_back(random_host(prng, weather));
  plan.burst_max = prng.between(1, 48);
  plan.wake_delay_max = nanoseconds(static_cast<std::int64_t>(prng.below(2) == 0 ? 0 : prng.below(10'000)));
  plan.faults = random_faults(prng, weather);
  const std::uint64_t connections = prng.between(1, 5);
  for (std::uint64_t i = 0; i < connections; ++i) {
    const auto roll = prng.below(10);
    const QpType type = i == 0 || roll < 7 ? QpType::kRc : roll < 8 ? QpType::kUc : QpType::kUd;
    plan.traffic.push_back(random_traffic(prng, plan, weather, type));
    plan.traffic.back().messages =
        static_cast<std::uint32_t>((kMessagesMin + prng.below(200)) / connections + 2);
  }
  const Duration crossing = crossing_time(plan);
  plan.packet_lifetime = crossing + milliseconds(1);
  for (TrafficPlan& traffic : plan.traffic) {
    // Longer than any packet can take there and back.
    while (traffic.timeout != 0 && (std::int64_t{4096} << traffic.timeout) < crossing.ns * 2)
      ++traffic.timeout;
    if (traffic.timeout != 0) traffic.timeout = static_cast<std::uint8_t>(traffic.timeout + prng.below(3));
  }
  if (weather >= Weather::kMild && prng.below(4) == 0) {
    for (std::uint64_t i = prng.between(1, 3); i != 0; --i) {
      const auto from = static_cast<std::uint32_t>(prng.below(hosts));
      const Instant begin{static_cast<std::int64_t>(prng.below(20'000'000))};
      plan.partitions.push_back(
          {from, static_cast<std::uint32_t>((from + prng.between(1, hosts - 1)) % hosts), begin,
           begin + nanoseconds(
                       static_cast<std::int64_t>(prng.below(prng.below(2) == 0 ? 2'000'000 : 80'000'000)))});
    }
  }
  if (weather >= Weather::kUnruly && prng.below(4) == 0) {
    for (std::uint64_t i = prng.between(1, 3); i != 0; --i) {
      const PausePlan pause{static_cast<std::uint32_t>(prng.below(hosts)),
                            Instant{static_cast<std::int64_t>(prng.below(10'000'000))},
                            nanoseconds(static_cast<std::int64_t>(prng.below(5'000'000)))};
      plan.pauses.push_back(pause);
      plan.packet_lifetime = plan.packet_lifetime + pause.time;  // a packet may meet every pause
    }
  }
  plan.overflow_queue = prng.below(16) == 0;
  decide_kinship(plan);
  return plan;
}

}  // namespace rrdma::sim
