// TestNetwork: several hosts, each an Endpoint, and a network between them whose clock jumps from one event
// to the next. A seed determines which MADs are lost, duplicated and delayed (and thereby reordered). For
// tests only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/instant.h"
#include "base/prng.h"
#include "cm/endpoint.h"

namespace rrdma::cm {

struct TestFaults {
  std::uint32_t drop_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  Duration delay_min = microseconds(10);
  Duration delay_max = microseconds(10);
};

inline wire::Gid test_gid(unsigned host) {
  return wire::gid_of_ipv4({10, 0, static_cast<std::uint8_t>(host >> 8), static_cast<std::uint8_t>(host)});
}

class TestNetwork {
 public:
  explicit TestNetwork(std::uint64_t seed, TestFaults with = {}) : faults(with), prng_(seed), seed_(seed) {}

  // Handles an event of a host; by default it is kept in `events`.
  std::function<void(unsigned host, const Event&)> on_event;
  // Sees every MAD that is sent; returns false to drop it.
  std::function<bool(unsigned from, const wire::CmMad&)> filter;
  TestFaults faults;

  unsigned add_host(const Settings& settings = {}) {
    const auto host = static_cast<unsigned>(hosts_.size());
    Settings own = settings;
    own.ca_guid = 0x0200000000000000 | host;
    hosts_.push_back(std::make_unique<Host>(own, KeySource(seed_ * 1000 + host)));
    return host;
  }
  Endpoint& host(unsigned index) { return hosts_[index]->endpoint; }
  std::deque<Event>& events(unsigned index) { return hosts_[index]->events; }
  [[nodiscard]] Instant now() const { return now_; }

  // The messages since the last call, as "0>1 REQ".
  std::vector<std::string> take_trace() { return std::exchange(trace_, {}); }
  // Every event and every MAD with its time: equal for equal seeds.
  [[nodiscard]] const std::string& log() const { return log_; }

  // Runs an owner's action later.
  void schedule(Duration delay, std::function<void()> action) {
    actions_.emplace(std::pair(now_ + delay, next_packet_++), std::move(action));
  }

  void run_until(Instant end) {
    collect();
    while (true) {
      const Instant next = next_time();
      if (next > end) break;
      now_ = next;
      act();
      deliver();
      for (auto& host : hosts_) host->endpoint.handle_timeouts(now_);
      collect();
    }
    now_ = end;
  }
  void run_for(Duration duration) { run_until(now_ + duration); }
  // Runs until nothing is in flight and no timer is set.
  void run_to_silence() {
    collect();
    while (next_time() != kNever) run_until(next_time());
  }
  // Delivers a MAD directly.
  void inject(unsigned from, unsigned to, const wire::CmMad& mad) {
    host(to).handle_mad(now_, {.local = test_gid(to), .remote = test_gid(from)}, wire::emit_cm_mad(mad));
    collect();
  }

 private:
  struct Host {
    Host(const Settings& settings, const KeySource& keys) : endpoint(settings, keys) {}
    Endpoint endpoint;
    std::deque<Event> events;
  };
  struct Packet {
    unsigned to = 0;
    MadAddresses addresses;
    wire::MadBuffer octets{};
  };

  Instant next_time() const {
    Instant next = in_flight_.empty() ? kNever : in_flight_.begin()->first.first;
    if (!actions_.empty()) next = std::min(next, actions_.begin()->first.first);
    for (const auto& host : hosts_) next = std::min(next, host->endpoint.next_deadline());
    return std::max(next, now_);
  }

  // Repeats until all hosts are idle: an owner that answers an event causes more messages.
  void collect() {
    bool busy = true;
    while (busy) {
      busy = false;
      for (unsigned index = 0; index < hosts_.size(); ++index) {
        while (auto mad = hosts_[index]->endpoint.poll_mad()) {
          busy = true;
          carry(index, *mad);
        }
        while (auto event = hosts_[index]->endpoint.poll_event()) {
          busy = true;
          note(std::to_string(index) + " " + std::string(event_name(event->details)) + " " +
               std::to_string(event->id.value));
          if (on_event) {
            on_event(index, *event);
          } else {
            hosts_[index]->events.push_back(*event);
          }
        }
      }
    }
  }

  void carry(unsigned from, const OutgoingMad& mad) {
    const auto parsed = wire::parse_cm_mad(mad.octets);
    RRDMA_ASSERT(parsed.ok());
    RRDMA_ASSERT(mad.route.local == test_gid(from));
    const auto to = static_cast<unsigned>(mad.route.remote.octets[14] << 8 | mad.route.remote.octets[15]);
    const std::string line = std::to_string(from) + ">" + std::to_string(to) + " " +
                             std::string(wire::cm_message_name(wire::attribute_of(parsed->message)));
    trace_.push_back(line);
    note(line);
    if (filter && !filter(from, *parsed)) return;
    if (to >= hosts_.size()) return;
    if (prng_.chance_ppm(faults.drop_ppm)) return;
    const int copies = prng_.chance_ppm(faults.duplicate_ppm) ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      const Duration delay = nanoseconds(static_cast<std::int64_t>(prng_.between(
          static_cast<std::uint64_t>(faults.delay_min.ns), static_cast<std::uint64_t>(faults.delay_max.ns))));
      in_flight_.emplace(std::pair(now_ + delay, next_packet_++),
                         Packet{.to = to,
                                .addresses = {.local = mad.route.remote, .remote = mad.route.local},
                                .octets = mad.octets});
    }
  }

  void act() {
    while (!actions_.empty() && actions_.begin()->first.first <= now_) {
      const auto action = std::move(actions_.begin()->second);
      actions_.erase(actions_.begin());
      action();
      collect();
    }
  }

  void deliver() {
    while (!in_flight_.empty() && in_flight_.begin()->first.first <= now_) {
      const Packet packet = in_flight_.begin()->second;
      in_flight_.erase(in_flight_.begin());
      hosts_[packet.to]->endpoint.handle_mad(now_, packet.addresses, packet.octets);
      collect();
    }
  }

  void note(const std::string& line) {
    log_ += std::to_string(now_.ns);
    log_ += ' ';
    log_ += line;
    log_ += '\n';
  }

  Prng prng_;
  std::uint64_t seed_;
  Instant now_{};
  std::vector<std::unique_ptr<Host>> hosts_;
  std::map<std::pair<Instant, std::uint64_t>, Packet> in_flight_;
  std::map<std::pair<Instant, std::uint64_t>, std::function<void()>> actions_;
  std::uint64_t next_packet_ = 0;
  std::vector<std::string> trace_;
  std::string log_;
};

// A call from one host to another, to kTestService.
inline constexpr std::uint64_t kTestService = wire::service_id_of({wire::PortSpace::kTcp, 7174});

inline ConnectParameters test_call(unsigned from, unsigned to, std::uint32_t qpn) {
  return {.owner = qpn,
          .route = {.local = test_gid(from), .remote = test_gid(to)},
          .service_id = kTestService,
          .ip = wire::IpCmHeader{.version = wire::IpVersion::kIpv4,
                                 .source_port = 40'000,
                                 .source = test_gid(from),
                                 .destination = test_gid(to)},
          .qpn = wire::Qpn(qpn),
          .starting_psn = wire::Psn(qpn + 1000),
          .path_mtu = 3,
          .responder_resources = 4,
          .initiator_depth = 2};
}

inline AcceptParameters test_acceptance(std::uint32_t qpn) {
  return {.qpn = wire::Qpn(qpn),
          .starting_psn = wire::Psn(qpn + 2000),
          .responder_resources = 2,
          .initiator_depth = 3,
          .rnr_retry_count = 6};
}

}  // namespace rrdma::cm
