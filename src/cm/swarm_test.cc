// Swarms: thousands of connections between hosts. The network loses, duplicates and reorders MADs; owners
// accept, reject, delay, disconnect and vanish, all determined by a seed. Safety: events come in a valid
// order, and nothing is left behind. Progress: unless the network is dead, every connection that both owners
// want is established. A failure prints its seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "cm/test_network.h"

namespace rrdma::cm::swarm_test {

enum class ServerWill { kAccept, kReject, kVanishAtOnce, kVanishAfterRep };
enum class CallerWill { kEstablish, kRejectRep, kVanishEarly, kVanishAtRep };
enum class Farewell {
  kCallerDisconnects,
  kServerDisconnects,
  kBothDisconnect,
  kCallerVanishes,
  kServerVanishes
};

struct Plan {
  ServerWill server = ServerWill::kAccept;
  CallerWill caller = CallerWill::kEstablish;
  Farewell farewell = Farewell::kCallerDisconnects;
  Duration server_hesitates, caller_hesitates, lasts;

  [[nodiscard]] bool meant_to_stand() const {
    return server == ServerWill::kAccept && caller == CallerWill::kEstablish;
  }
};

// The events that one owner has seen of its connection.
struct Witness {
  std::uint32_t plan = 0;
  bool active = false;
  int replies = 0, established = 0, rejected = 0, unreachable = 0, disconnected = 0, timewait_exits = 0;
  bool destroyed = false;
  DisconnectCause cause{};
  [[nodiscard]] int events() const {
    return replies + established + rejected + unreachable + disconnected + timewait_exits + (active ? 0 : 1);
  }
};

struct SwarmOptions {
  std::uint64_t seed = 1;
  unsigned hosts = 2;
  std::uint32_t calls = 1000;
  TestFaults faults;
  Settings settings;
  bool only_willing = false;
  Duration spread = seconds(20);  // the calls begin within this time
};

class Swarm {
 public:
  explicit Swarm(const SwarmOptions& options)
      : options_(options), network_(options.seed, options.faults), prng_(options.seed ^ 0x5eed) {
    for (unsigned host = 0; host < options.hosts; ++host) {
      network_.add_host(options.settings);
      EXPECT_TRUE(network_.host(host).listen({.service_id = kTestService}).ok());
    }
    network_.on_event = [this](unsigned host, const Event& event) { handle(host, event); };
    for (std::uint32_t i = 0; i < options.calls; ++i) {
      plans_.push_back(random_plan());
      network_.schedule(random_time(options.spread), [this, i] { call(i); });
    }
  }

  void run() {
    network_.run_to_silence();
    for (const auto& [key, witness] : witnesses_) {
      const auto state = network_.host(key.first).state_of({key.second});
      EXPECT_FALSE(state.has_value())
          << "plan " << witness.plan << (witness.active ? ", caller: " : ", server: ") << state_name(*state);
    }
    for (unsigned host = 0; host < options_.hosts; ++host) {
      EXPECT_EQ(network_.host(host).connections(), 0u) << "leaked by host " << host;
      EXPECT_EQ(network_.host(host).tombstones(), 0u);
      EXPECT_EQ(network_.host(host).next_deadline(), kNever);
      EXPECT_EQ(network_.host(host).counters().malformed, 0u);
      EXPECT_EQ(network_.host(host).counters().outgoing_lost, 0u);
    }
  }

  // All owners give up their established connections.
  void abandon_established() {
    for (const auto& [key, witness] : witnesses_) {
      const ConnectionId id{key.second};
      if (network_.host(key.first).state_of(id) == State::kEstablished) vanish(key.first, id);
    }
  }

  TestNetwork& network() { return network_; }
  const std::vector<Plan>& plans() const { return plans_; }
  // The caller's view of each call, and the server's view if there is one.
  std::vector<const Witness*> callers() const { return views(true); }
  std::vector<const Witness*> servers() const { return views(false); }

 private:
  using Key = std::pair<unsigned, std::uint32_t>;

  Duration random_time(Duration bound) {
    return nanoseconds(static_cast<std::int64_t>(prng_.below(static_cast<std::uint64_t>(bound.ns))));
  }

  Plan random_plan() {
    Plan plan{
        .farewell = static_cast<Farewell>(prng_.below(5)),
        .server_hesitates = prng_.below(4) == 0 ? random_time(seconds(6)) : random_time(milliseconds(5)),
        .caller_hesitates = prng_.below(4) == 0 ? random_time(seconds(3)) : random_time(milliseconds(5)),
        .lasts = random_time(seconds(3))};
    if (options_.only_willing) return plan;
    if (prng_.below(5) == 0) plan.server = static_cast<ServerWill>(prng_.below(4));
    if (prng_.below(5) == 0) plan.caller = static_cast<CallerWill>(prng_.below(4));
    return plan;
  }

  void call(std::uint32_t index) {
    const auto from = static_cast<unsigned>(prng_.below(options_.hosts));
    const auto to = static_cast<unsigned>(prng_.below(options_.hosts));
    ConnectParameters parameters = test_call(from, to, next_qpn_++);
    std::array<std::uint8_t, 4> marker{};
    store_be32(marker.data(), index);
    parameters.private_data = marker;
    const auto id = network_.host(from).connect(network_.now(), parameters);
    ASSERT_TRUE(id.ok());
    witnesses_[{from, id->value}] = {.plan = index, .active = true};
    if (plans_[index].caller == CallerWill::kVanishEarly) {
      network_.schedule(plans_[index].caller_hesitates, [this, from, id = *id] { vanish(from, id); });
    }
  }

  void handle(unsigned host, const Event& event) {
    if (std::holds_alternative<ConnectRequest>(event.details)) {
      const std::uint32_t index = load_be32(event.private_data.octets.data() + wire::kIpCmHeaderOctets);
      ASSERT_LT(index, plans_.size());
      ASSERT_TRUE(witnesses_.try_emplace({host, event.id.value}, Witness{.plan = index}).second);
      ASSERT_TRUE(requested_.insert(index).second) << "one call was announced twice";
      network_.schedule(plans_[index].server_hesitates, [this, host, id = event.id] { answer(host, id); });
      return;
    }
    const auto found = witnesses_.find({host, event.id.value});
    ASSERT_NE(found, witnesses_.end()) << event_name(event.details);
    Witness& witness = found->second;
    ASSERT_FALSE(witness.destroyed) << "an event after destroy()";
    ASSERT_EQ(witness.timewait_exits, 0) << "an event after the last one";
    ASSERT_EQ(witness.unreachable, 0);
    observe(host, event, witness);
    ASSERT_LE(witness.events(), static_cast<int>(kEventsForEachConnection));
  }

  void observe(unsigned host, const Event& event, Witness& witness) {
    const Plan& plan = plans_[witness.plan];
    const ConnectionId id = event.id;
    if (std::holds_alternative<ConnectReply>(event.details)) {
      EXPECT_TRUE(witness.active && witness.events() == 0);
      ++witness.replies;
      network_.schedule(plan.caller_hesitates, [this, host, id] { conclude(host, id); });
    } else if (std::holds_alternative<Established>(event.details)) {
      EXPECT_TRUE(!witness.active && witness.events() == 1);
      ++witness.established;
      if (plan.farewell == Farewell::kServerDisconnects || plan.farewell == Farewell::kBothDisconnect) {
        network_.schedule(plan.lasts, [this, host, id] { hang_up(host, id); });
      } else if (plan.farewell == Farewell::kServerVanishes) {
        network_.schedule(plan.lasts, [this, host, id] { vanish(host, id); });
      }
    } else if (std::holds_alternative<Rejected>(event.details)) {
      EXPECT_EQ(witness.rejected + witness.disconnected, 0);
      ++witness.rejected;
      retire_if_over(host, id);
    } else if (std::holds_alternative<Unreachable>(event.details)) {
      ++witness.unreachable;
      vanish(host, id);
    } else if (const auto* disconnected = std::get_if<Disconnected>(&event.details)) {
      EXPECT_EQ(witness.rejected + witness.disconnected, 0);
      ++witness.disconnected;
      witness.cause = disconnected->cause;
      if (disconnected->cause == DisconnectCause::kPeerAsked) {
        network_.schedule(random_time(milliseconds(100)), [this, host, id] { hang_up(host, id); });
      }
    } else if (std::holds_alternative<TimeWaitExit>(event.details)) {
      EXPECT_EQ(witness.rejected + witness.disconnected, 1);
      ++witness.timewait_exits;
      vanish(host, id);
    } else {
      ADD_FAILURE() << event_name(event.details);
    }
  }

  // The server's owner answers.
  void answer(unsigned host, ConnectionId id) {
    Endpoint& endpoint = network_.host(host);
    const Plan& plan = plans_[witnesses_[{host, id.value}].plan];
    const auto state = endpoint.state_of(id);
    // The caller may have given up meanwhile.
    if (state != State::kReqReceived && state != State::kMraReqSent) return vanish(host, id);
    switch (plan.server) {
      case ServerWill::kReject:
        EXPECT_TRUE(endpoint.reject(network_.now(), id, {}).ok());
        vanish(host, id);
        return;
      case ServerWill::kVanishAtOnce: return vanish(host, id);
      case ServerWill::kVanishAfterRep:
        network_.schedule(random_time(milliseconds(500)), [this, host, id] { vanish(host, id); });
        [[fallthrough]];
      case ServerWill::kAccept:
        EXPECT_TRUE(endpoint.accept(network_.now(), id, test_acceptance(next_qpn_++)).ok());
        return;
    }
  }

  // The caller's owner acts on the reply.
  void conclude(unsigned host, ConnectionId id) {
    Endpoint& endpoint = network_.host(host);
    const Plan& plan = plans_[witnesses_[{host, id.value}].plan];
    const auto state = endpoint.state_of(id);
    if (state != State::kRepReceived && state != State::kMraRepSent) return;
    switch (plan.caller) {
      case CallerWill::kRejectRep:
        EXPECT_TRUE(endpoint.reject(network_.now(), id, {}).ok());
        vanish(host, id);
        return;
      case CallerWill::kVanishEarly:
      case CallerWill::kVanishAtRep: return vanish(host, id);
      case CallerWill::kEstablish: break;
    }
    EXPECT_TRUE(endpoint.send_rtu(id).ok());
    if (plan.farewell == Farewell::kCallerDisconnects || plan.farewell == Farewell::kBothDisconnect) {
      network_.schedule(plan.lasts, [this, host, id] { hang_up(host, id); });
    } else if (plan.farewell == Farewell::kCallerVanishes) {
      network_.schedule(plan.lasts, [this, host, id] { vanish(host, id); });
    }
  }

  void hang_up(unsigned host, ConnectionId id) {
    Endpoint& endpoint = network_.host(host);
    const auto state = endpoint.state_of(id);
    if (state == State::kEstablished || state == State::kDreqReceived) {
      EXPECT_TRUE(endpoint.disconnect(network_.now(), id).ok());
    }
  }

  void retire_if_over(unsigned host, ConnectionId id) {
    const auto state = network_.host(host).state_of(id);
    if (state == State::kIdle || state == State::kRejected) vanish(host, id);
  }

  void vanish(unsigned host, ConnectionId id) {
    witnesses_[{host, id.value}].destroyed = true;
    network_.host(host).destroy(network_.now(), id);
  }

  std::vector<const Witness*> views(bool active) const {
    std::vector<const Witness*> views(plans_.size(), nullptr);
    for (const auto& [key, witness] : witnesses_) {
      if (witness.active == active) views[witness.plan] = &witness;
    }
    return views;
  }

  SwarmOptions options_;
  TestNetwork network_;
  Prng prng_;
  std::vector<Plan> plans_;
  std::map<Key, Witness> witnesses_;
  std::set<std::uint32_t> requested_;
  std::uint32_t next_qpn_ = 2;
};

constexpr TestFaults kRough{
    .drop_ppm = 50'000, .duplicate_ppm = 50'000, .delay_min = microseconds(5), .delay_max = milliseconds(20)};
// Delays stay within RoCE's packet lifetime, 2^16 * 4.096 us: older messages are not recognised.
constexpr TestFaults kTerrible{.drop_ppm = 200'000,
                               .duplicate_ppm = 200'000,
                               .delay_min = microseconds(5),
                               .delay_max = milliseconds(250)};

// Every connection that both owners wanted was established, and both saw it end.
void expect_all_stood(const Swarm& swarm) {
  const auto callers = swarm.callers();
  const auto servers = swarm.servers();
  for (std::size_t i = 0; i < swarm.plans().size(); ++i) {
    const Plan& plan = swarm.plans()[i];
    if (!plan.meant_to_stand()) continue;
    ASSERT_NE(callers[i], nullptr);
    ASSERT_NE(servers[i], nullptr) << "call " << i << " never reached its server";
    EXPECT_EQ(callers[i]->replies, 1) << i;
    EXPECT_EQ(callers[i]->rejected + callers[i]->unreachable, 0) << i;
    EXPECT_EQ(servers[i]->rejected + servers[i]->unreachable, 0) << i;
    if (plan.farewell != Farewell::kCallerVanishes) {
      EXPECT_EQ(callers[i]->disconnected, 1) << i;
      EXPECT_NE(callers[i]->cause, DisconnectCause::kNoAnswer) << i;
      EXPECT_EQ(callers[i]->timewait_exits, 1) << i;
    }
    if (plan.farewell != Farewell::kServerVanishes) {
      EXPECT_EQ(servers[i]->disconnected, 1) << i;
      EXPECT_NE(servers[i]->cause, DisconnectCause::kNoAnswer) << i;
      EXPECT_EQ(servers[i]->timewait_exits, 1) << i;
    }
  }
}

class SwarmSeed : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(SwarmSeed, TwoHostsOnARoughNetwork) {
  Swarm swarm({.seed = GetParam(), .calls = 2000, .faults = kRough});
  swarm.run();
  expect_all_stood(swarm);
}

TEST_P(SwarmSeed, ManyHostsOnATerribleNetwork) {
  Swarm swarm({.seed = GetParam(), .hosts = 7, .calls = 2000, .faults = kTerrible});
  swarm.run();
  expect_all_stood(swarm);
}

TEST_P(SwarmSeed, AThousandAtOnceWithFivePercentLoss) {
  Swarm swarm({.seed = GetParam(),
               .calls = 1000,
               .faults = kRough,
               .only_willing = true,
               .spread = milliseconds(100)});
  swarm.run();
  expect_all_stood(swarm);
}

TEST_P(SwarmSeed, HostsThatRetryOnlyAfterTheResponseTimeout) {
  Swarm swarm(
      {.seed = GetParam(), .hosts = 3, .calls = 1000, .faults = kRough, .settings = {.first_retry = {}}});
  swarm.run();
  expect_all_stood(swarm);
}

// The network dies in the middle: every owner is notified, and nothing is left behind.
TEST_P(SwarmSeed, ANetworkThatDies) {
  Swarm swarm({.seed = GetParam(), .hosts = 3, .calls = 1000, .faults = kRough});
  swarm.network().schedule(seconds(10), [&] { swarm.network().faults.drop_ppm = 1'000'000; });
  // If no owner disconnects, only the queue pairs notice.
  swarm.network().schedule(seconds(500), [&] { swarm.abandon_established(); });
  swarm.run();
  int unreachable = 0;
  int unanswered = 0;
  for (const auto& views : {swarm.callers(), swarm.servers()}) {
    for (const Witness* witness : views) {
      if (witness == nullptr) continue;
      unreachable += witness->unreachable;
      unanswered += witness->disconnected != 0 && witness->cause == DisconnectCause::kNoAnswer ? 1 : 0;
    }
  }
  EXPECT_GT(unreachable, 100);
  EXPECT_GT(unanswered, 10);
}

TEST_P(SwarmSeed, TheSameSeedGivesTheSameEvents) {
  const SwarmOptions options{.seed = GetParam(), .hosts = 4, .calls = 300, .faults = kTerrible};
  Swarm first(options);
  first.run();
  Swarm second(options);
  second.run();
  EXPECT_EQ(first.network().log(), second.network().log());
  SwarmOptions other = options;
  other.seed += 1'000'000;
  Swarm third(other);
  third.run();
  EXPECT_NE(first.network().log(), third.network().log());
}

// Every lookup is answered, and every owner sees it once, despite losses.
TEST_P(SwarmSeed, LookupsOnARoughNetwork) {
  TestNetwork network(GetParam(), kRough);
  Prng prng(GetParam());
  for (unsigned host = 0; host < 3; ++host) {
    network.add_host();
    ASSERT_TRUE(network.host(host).listen({.service_id = kTestService}).ok());
  }
  constexpr std::uint32_t kLookups = 1000;
  std::vector<int> asked(kLookups);
  std::vector<int> answered(kLookups);
  network.on_event = [&](unsigned host, const Event& event) {
    if (std::holds_alternative<LookupRequest>(event.details)) {
      const std::uint32_t index = load_be32(event.private_data.octets.data());
      ASSERT_LT(index, kLookups);
      ++asked[index];
      network.schedule(
          milliseconds(static_cast<std::int64_t>(prng.below(2000))), [&network, host, index, id = event.id] {
            EXPECT_TRUE(network.host(host).reply_lookup(network.now(), id, {.qpn = wire::Qpn(index)}).ok());
            network.host(host).destroy(network.now(), id);
          });
    } else if (const auto* reply = std::get_if<LookupReply>(&event.details)) {
      EXPECT_EQ(reply->qpn, wire::Qpn(static_cast<std::uint32_t>(event.owner)));
      ++answered[event.owner];
      network.host(host).destroy(network.now(), event.id);
    } else {
      ADD_FAILURE() << event_name(event.details);
    }
  };
  for (std::uint32_t i = 0; i < kLookups; ++i) {
    network.schedule(milliseconds(i), [&network, i] {
      std::array<std::uint8_t, 4> marker{};
      store_be32(marker.data(), i);
      EXPECT_TRUE(
          network.host(i % 3)
              .look_up(network.now(), {.owner = i,
                                       .route = {.local = test_gid(i % 3), .remote = test_gid((i / 3) % 3)},
                                       .service_id = kTestService,
                                       .private_data = marker})
              .ok());
    });
  }
  network.run_to_silence();
  EXPECT_EQ(asked, std::vector<int>(kLookups, 1));
  EXPECT_EQ(answered, std::vector<int>(kLookups, 1));
  for (unsigned host = 0; host < 3; ++host) EXPECT_EQ(network.host(host).connections(), 0u);
}

// RRDMA_CM_SEEDS=n runs n seeds instead of five.
std::uint64_t seed_count() {
  const char* count = std::getenv("RRDMA_CM_SEEDS");
  return count == nullptr ? 5 : std::strtoull(count, nullptr, 10);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwarmSeed, ::testing::Range<std::uint64_t>(1, 1 + seed_count()));

}  // namespace rrdma::cm::swarm_test
