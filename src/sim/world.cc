#include "sim/world.h"

#include <algorithm>

#include "sim/engine_call.h"
#include "wire/crc32.h"
#include "wire/source_port.h"

namespace rrdma::sim {
namespace {

// More rounds than this without progress of time are an endless loop.
constexpr std::uint32_t kTurnsAtOneInstantMax = 100'000;
constexpr int kRoundsOfATurn = 4;

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

Host::Host(World& world, link::HostIndex index, const transport::EngineConfig& config, std::uint64_t secret)
    : memory(secret),
      engine(config, memory, *this),
      world_(world),
      index_(index),
      link_(world.network().link(index)),
      next_qpn_(((index + 1) << 16) + 2) {}

objects::Path Host::path_to(const Host& other, bool ipv6, wire::Qpn local, wire::Qpn remote) const {
  objects::Path path;
  path.local = ipv6 ? link::SimNetwork::ipv6_gid(index_) : link::SimNetwork::ipv4_gid(index_);
  path.remote = ipv6 ? link::SimNetwork::ipv6_gid(other.index_) : link::SimNetwork::ipv4_gid(other.index_);
  path.source_port = wire::source_port_of_connection(0, local, remote);
  path.traffic_class = 2;  // ECN-capable
  path.lossless = lossless;
  return path;
}

void Host::transmit_posted(transport::QueuePair& qp, Instant now) {
  if (!lossless) return;
  {
    EngineCall guard;
    if (!engine.transmit_straight(qp, link_, now)) return;
  }
  link_.flush(now);
  EngineCall guard;
  engine.flushed(now);
}

Instant Host::due() const {
  Instant at = std::min(wake_at_, engine.next_deadline());
  if (at == kNever) return kNever;
  return std::max(at, paused_until_);
}

void Host::turn(Instant now) {
  turn_at_ = now;
  wake_at_ = kNever;
  link_.poll(*this, now, burst_max);
  {
    EngineCall guard;
    engine.handle_timers(now);
  }
  bool active = true;
  bool starved = false;
  for (int round = 0; active && round < kRoundsOfATurn; ++round) {
    active = application != nullptr && application->on_turn(*this, now);
    const std::uint64_t completions = engine.counters().send_completions;
    {
      EngineCall guard;
      starved = engine.transmit(link_, now);
    }
    link_.flush(now);
    {
      EngineCall guard;
      engine.flushed(now);
    }
    active |= engine.counters().send_completions != completions;  // there is something to poll
  }
  if (starved) wake(link_.room_at(now));
  if (active || link_.has_arrivals()) wake(now + nanoseconds(1));
}

void Host::on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) {
  EngineCall guard;
  engine.handle_packet(packet, origin, turn_at_);
}

void Host::on_qp_event(transport::QueuePair& qp, transport::QpEvent event) {
  EngineCall::Pause pause;
  world_.log(0xe7e47ULL << 8 | static_cast<std::uint64_t>(event), qp.qpn.value);
  if (application != nullptr) application->on_qp_event(*this, qp, event);
}

World::World(std::uint64_t seed) : prng_(seed), network_(prng_.next()) { network_.set_observer(this); }
World::~World() = default;

Host& World::add_host(const HostConfig& config) {
  const link::HostIndex index = network_.add_host(config.network);
  hosts_.push_back(std::make_unique<Host>(*this, index, config.engine, prng_.next()));
  return *hosts_.back();
}

void World::at(Instant when, std::function<void()> action) {
  actions_.push(std::max(when, now_), std::move(action));
}

bool World::step(Instant limit) {
  if (violation_) return false;
  Instant next = std::min(network_.next_event(), actions_.earliest());
  for (const auto& host : hosts_) next = std::min(next, host->due());
  if (next == kNever || next > limit) return false;
  if (next > now_) {
    now_ = next;
    turns_without_time_ = 0;
  } else if (++turns_without_time_ > kTurnsAtOneInstantMax) {
    violate("time does not go on: something is due again and again at one instant");
    return false;
  }
  network_.advance(now_);
  for (const link::HostIndex index : network_.arrivals()) {
    Host& host = *hosts_[index];
    const auto delay = static_cast<std::uint64_t>(host.wake_delay_max.ns);
    host.wake(now_ + nanoseconds(delay == 0 ? 0 : static_cast<std::int64_t>(prng_.below(delay + 1))));
  }
  network_.arrivals().clear();
  while (actions_.earliest() <= now_) actions_.pop()();
  for (const auto& host : hosts_) {
    if (host->due() <= now_) host->turn(now_);
    if (violation_) return false;
  }
  return true;
}

void World::run_until(Instant limit) {
  while (step(limit)) {
  }
  if (!violation_ && limit != kNever) now_ = std::max(now_, limit);
}

bool World::run_until(const std::function<bool()>& done, Instant limit) {
  while (!done()) {
    if (!step(limit)) return false;
  }
  return true;
}

void World::log(std::uint64_t a, std::uint64_t b) {
  log_hash_ =
      mix(log_hash_ ^ mix(a + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(now_.ns)) ^ (b << 1));
}

void World::violate(std::string promise) {
  if (!violation_) violation_ = std::move(promise);
}

void World::on_sent(const link::PacketView& packet, Instant now) {
  for (link::PacketObserver* observer : observers_) observer->on_sent(packet, now);
}

void World::on_fate(const link::PacketView& packet, link::Fate fate, Instant now) {
  if (fate == link::Fate::kDelivered) {
    wire::Crc32 sum(0);
    sum.update(packet.frame);
    log(std::uint64_t{packet.from} << 32 | packet.to, std::uint64_t{sum.value()} << 16 ^ packet.frame.size());
  }
  for (link::PacketObserver* observer : observers_) observer->on_fate(packet, fate, now);
}

}  // namespace rrdma::sim
