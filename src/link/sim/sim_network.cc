#include "link/sim/sim_network.h"

#include <algorithm>

#include "base/assert.h"
#include "link/sim/sim_frame.h"
#include "wire/ethernet.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/udp.h"

namespace rrdma::link {
namespace {

// Preamble, frame check sequence and inter-frame gap take time on the cable as well.
constexpr std::uint64_t kCableOverheadOctets = 24;
// How far a reordered packet may fall back.
constexpr std::int64_t kReorderNsMax = 60'000;

Duration cable_time(std::size_t octets, std::uint64_t megabits_per_second) {
  return nanoseconds(static_cast<std::int64_t>(
      ((octets + kCableOverheadOctets) * 8'000 + megabits_per_second - 1) / megabits_per_second));
}

std::uint64_t backlog_octets(Instant free_at, Instant now, std::uint64_t megabits_per_second) {
  if (free_at <= now) return 0;
  return static_cast<std::uint64_t>((free_at - now).ns) * megabits_per_second / 8'000;
}

}  // namespace

std::string_view describe(Fate fate) {
  switch (fate) {
    case Fate::kDropped: return "dropped";
    case Fate::kDuplicated: return "duplicated";
    case Fate::kReordered: return "reordered";
    case Fate::kCorrupted: return "corrupted";
    case Fate::kDelayed: return "delayed";
    case Fate::kMarked: return "ecn_marked";
    case Fate::kPartitioned: return "partitioned";
    case Fate::kFiltered: return "filtered";
    case Fate::kQueueFull: return "queue_full";
    case Fate::kReceiveFull: return "receive_full";
    case Fate::kNoRoom: return "no_room";
    case Fate::kNoRoute: return "no_route";
    case Fate::kFrameRefused: return "frame_refused";
    case Fate::kIcrcRefused: return "icrc_refused";
    case Fate::kTransportRefused: return "transport_refused";
    case Fate::kDelivered: return "delivered";
  }
  return "unknown";
}

SimNetwork::SimNetwork(std::uint64_t seed) : seed_(seed), prng_(seed) {}
SimNetwork::~SimNetwork() = default;

HostIndex SimNetwork::add_host(const HostProperties& properties) {
  const auto index = static_cast<HostIndex>(hosts_.size());
  Host& host = hosts_.emplace_back();
  host.properties = properties;
  host.link = std::make_unique<SimLink>(*this, index);
  return index;
}

wire::Gid SimNetwork::ipv4_gid(HostIndex host) {
  return wire::gid_of_ipv4(
      {10, 0, static_cast<std::uint8_t>((host + 1) >> 8), static_cast<std::uint8_t>(host + 1)});
}

wire::Gid SimNetwork::ipv6_gid(HostIndex host) {
  wire::Gid gid;
  gid.octets[0] = 0xfd;
  gid.octets[1] = 0x52;
  gid.octets[14] = static_cast<std::uint8_t>((host + 1) >> 8);
  gid.octets[15] = static_cast<std::uint8_t>(host + 1);
  return gid;
}

void SimNetwork::set_faults(const FaultSpec& faults) {
  faults_ = faults;
  if (faults.seed != FaultSpec{}.seed) prng_ = Prng(seed_ ^ (faults.seed * 0x9e3779b97f4a7c15ULL));
}

void SimNetwork::set_faults(HostIndex from, HostIndex to, const FaultSpec& faults) {
  for (PairFaults& pair : pair_faults_) {
    if (pair.from == from && pair.to == to) {
      pair.faults = faults;
      return;
    }
  }
  pair_faults_.push_back({from, to, faults});
}

void SimNetwork::partition(HostIndex from, HostIndex to, Instant begin, Instant end) {
  partitions_.push_back({from, to, begin, end});
}

void SimNetwork::stop_faults() {
  faults_ = {};
  pair_faults_.clear();
  partitions_.clear();
}

const FaultSpec& SimNetwork::faults_between(HostIndex from, HostIndex to) const {
  for (const PairFaults& pair : pair_faults_) {
    if (pair.from == from && pair.to == to) return pair.faults;
  }
  return faults_;
}

bool SimNetwork::partitioned(HostIndex from, HostIndex to, Instant at) const {
  return std::any_of(partitions_.begin(), partitions_.end(), [&](const Partition& cut) {
    return cut.from == from && cut.to == to && at >= cut.begin && at < cut.end;
  });
}

std::uint32_t SimNetwork::take_flight() {
  if (free_.empty()) {
    flights_.emplace_back();
    return static_cast<std::uint32_t>(flights_.size() - 1);
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  flights_[index].corrupted = flights_[index].must_be_refused = false;
  return index;
}

void SimNetwork::release(std::uint32_t flight) { free_.push_back(flight); }

void SimNetwork::tell(const Flight& flight, Fate fate, Instant now) {
  ++fates_[static_cast<std::size_t>(fate)];
  if (flight.to < hosts_.size()) ++hosts_[flight.to].fates[static_cast<std::size_t>(fate)];
  if (observer_ != nullptr) observer_->on_fate({flight.from, flight.to, flight.octets}, fate, now);
}

void SimNetwork::send(HostIndex from, const objects::Frame& frame, Instant now) {
  const wire::Gid& remote = frame.path->remote;
  const HostIndex to = (std::uint32_t{remote.octets[14]} << 8 | remote.octets[15]) - 1;
  const std::uint32_t index = take_flight();
  Flight& flight = flights_[index];
  flight.from = from;
  flight.to = to;
  flight.payload_octets = frame.payload_octets;
  emit_sim_frame(frame, from, to, flight.octets);
  ++sent_;
  Host& sender = hosts_[from];
  const CableProperties& up = sender.properties.up;
  sender.up_free = std::max(sender.up_free, now) + cable_time(flight.octets.size(), up.megabits_per_second);
  if (observer_ != nullptr) observer_->on_sent({from, to, flight.octets}, now);
  if (frame.corrupt_bit >= 0) {
    flip(flight, static_cast<std::size_t>(frame.corrupt_bit) % (flight.octets.size() * 8));
  }
  const bool routed = to < hosts_.size() && (remote == ipv4_gid(to) || remote == ipv6_gid(to));
  Fate fate = Fate::kDelivered;
  if (!routed) {
    fate = Fate::kNoRoute;
  } else if (filter_ && !filter_({from, to, flight.octets}, now)) {
    fate = Fate::kFiltered;
  } else if (partitioned(from, to, sender.up_free)) {
    fate = Fate::kPartitioned;
  }
  if (fate != Fate::kDelivered) {
    tell(flight, fate, now);
    release(index);
    return;
  }
  const FaultSpec& faults = faults_between(from, to);
  if (faults.duplicate_ppm != 0 && prng_.chance_ppm(faults.duplicate_ppm)) {
    const std::uint32_t copy = take_flight();
    flights_[copy].from = from;
    flights_[copy].to = to;
    flights_[copy].octets = flight.octets;
    flights_[copy].payload_octets = flight.payload_octets;
    flights_[copy].corrupted = flight.corrupted;
    flights_[copy].must_be_refused = flight.must_be_refused;
    tell(flight, Fate::kDuplicated, now);
    travel(copy, sender.up_free, faults);
  }
  travel(index, sender.up_free, faults);
}

// Flips one bit or a burst of at most 32: CRC-32 detects all of these.
void SimNetwork::corrupt(Flight& flight) {
  const std::size_t bits = flight.octets.size() * 8;
  const std::size_t burst = prng_.below(4) == 0 ? prng_.between(2, 32) : 1;
  const std::size_t first = prng_.below(bits - burst + 1);
  for (std::size_t i = 0; i < burst; ++i) {
    if (i != 0 && i + 1 != burst && prng_.below(2) == 0) continue;  // both ends of a burst are flipped
    flip(flight, first + i);
  }
}

// The ICRC covers the headers before the BTH only in part (a real cable has its frame check sequence), and
// does not cover byte 4 of the BTH.
void SimNetwork::flip(Flight& flight, std::size_t bit) {
  const std::size_t ip = wire::kEthernetOctets;
  const std::size_t bth =
      ip + (flight.octets[ip] >> 4 == 4 ? wire::kIpv4Octets : wire::kIpv6Octets) + wire::kUdpOctets;
  const std::size_t octet = bit / 8;
  flight.octets[octet] ^= static_cast<std::uint8_t>(0x80u >> (bit % 8));
  flight.corrupted = true;
  flight.must_be_refused |= octet >= bth && octet != bth + 4;
}

bool SimNetwork::loses(const Flight& flight, const FaultSpec& faults) {
  if (faults.mtu != 0 && flight.payload_octets > faults.mtu) return true;
  return faults.drop_ppm != 0 && hosts_[flight.from].loss.lose(faults, prng_);
}

// When the packet has left the cable that a fault makes slow; nothing if the queue before that cable is full.
std::optional<Instant> SimNetwork::cross_slow_cable(const Flight& flight, Instant departed,
                                                    const FaultSpec& faults) {
  Host& sender = hosts_[flight.from];
  const std::size_t outer = wire::kEthernetOctets + wire::kIpv4Octets + wire::kUdpOctets + wire::kIcrcOctets;
  const Duration time = time_on_cable(faults, flight.octets.size() - outer);
  const Instant begin = std::max(sender.slow_free, departed);
  const std::uint32_t queue = sender.properties.up.queue_octets;
  if (begin - departed > time * static_cast<std::int64_t>(queue / flight.octets.size() + 1))
    return std::nullopt;
  return sender.slow_free = begin + time;
}

// From the end of the uplink to the switch.
void SimNetwork::travel(std::uint32_t index, Instant departed, const FaultSpec& faults) {
  Flight& flight = flights_[index];
  Host& sender = hosts_[flight.from];
  const CableProperties& up = sender.properties.up;
  if (loses(flight, faults)) {
    tell(flight, Fate::kDropped, departed);
    release(index);
    return;
  }
  if (faults.rate_kbps != 0) {
    const auto crossed = cross_slow_cable(flight, departed, faults);
    tell(flight, crossed ? Fate::kDelayed : Fate::kQueueFull, departed);
    if (!crossed) return release(index);
    departed = *crossed;
  }
  if (faults.corrupt_ppm != 0 && prng_.chance_ppm(faults.corrupt_ppm)) {
    corrupt(flight);
    tell(flight, Fate::kCorrupted, departed);
  }
  if (faults.ecn_ppm != 0 && prng_.chance_ppm(faults.ecn_ppm) && !flight.corrupted &&
      mark_congestion(flight.octets)) {
    tell(flight, Fate::kMarked, departed);
  }
  Duration time = up.latency;
  if (up.jitter.ns != 0)
    time = time +
           nanoseconds(static_cast<std::int64_t>(prng_.below(static_cast<std::uint64_t>(up.jitter.ns) + 1)));
  if (faults.delay.ns != 0) {
    const auto spread = static_cast<std::uint64_t>(faults.delay_spread.ns);
    const auto more = static_cast<std::int64_t>(prng_.below(2 * spread + 1)) - faults.delay_spread.ns;
    time = time + faults.delay + nanoseconds(more);
    tell(flight, Fate::kDelayed, departed);
  }
  Instant at = departed + time;
  if (faults.reorder_ppm != 0 && prng_.chance_ppm(faults.reorder_ppm)) {
    const Duration packet = cable_time(flight.octets.size(), up.megabits_per_second);
    const Duration most = faults.depth != 0 ? packet * faults.depth : nanoseconds(kReorderNsMax);
    at = at + nanoseconds(static_cast<std::int64_t>(prng_.between(1, static_cast<std::uint64_t>(most.ns))));
    tell(flight, Fate::kReordered, departed);
  } else {
    at = std::max(at, sender.last_at_switch);  // delays do not reorder; reordering is a separate fault
    sender.last_at_switch = at;
  }
  flight.at_switch = true;
  events_.push(at, index);
}

void SimNetwork::enter_downlink(std::uint32_t index, Instant now) {
  Flight& flight = flights_[index];
  Host& receiver = hosts_[flight.to];
  const CableProperties& down = receiver.properties.down;
  const std::uint64_t backlog = backlog_octets(receiver.down_free, now, down.megabits_per_second);
  if (backlog + flight.octets.size() > down.queue_octets) {
    tell(flight, Fate::kQueueFull, now);
    release(index);
    return;
  }
  if (down.ecn_octets != 0 && backlog > down.ecn_octets && !flight.corrupted &&
      mark_congestion(flight.octets)) {
    tell(flight, Fate::kMarked, now);
  }
  receiver.down_free =
      std::max(receiver.down_free, now) + cable_time(flight.octets.size(), down.megabits_per_second);
  Instant at = receiver.down_free + down.latency;
  if (down.jitter.ns != 0)
    at = at +
         nanoseconds(static_cast<std::int64_t>(prng_.below(static_cast<std::uint64_t>(down.jitter.ns) + 1)));
  at = std::max(at, receiver.last_arrival);
  receiver.last_arrival = at;
  flight.at_switch = false;
  events_.push(at, index);
}

std::optional<Instant> SimNetwork::cross(HostIndex to, std::uint32_t octets, Instant now) {
  Host& receiver = hosts_[to];
  const CableProperties& down = receiver.properties.down;
  // Like a switch, drop packets without ECN support if ECN-capable ones would be marked.
  const std::uint64_t waiting = backlog(to, now);
  if (down.ecn_octets != 0 && waiting > down.ecn_octets) return std::nullopt;
  if (waiting + octets > down.queue_octets) return std::nullopt;
  receiver.down_free = std::max(receiver.down_free, now) + cable_time(octets, down.megabits_per_second);
  receiver.last_arrival = std::max(receiver.last_arrival, receiver.down_free + down.latency);
  return receiver.last_arrival;
}

std::uint64_t SimNetwork::backlog(HostIndex to, Instant now) const {
  return backlog_octets(hosts_[to].down_free, now, hosts_[to].properties.down.megabits_per_second);
}

void SimNetwork::arrive(std::uint32_t index, Instant now) {
  Flight& flight = flights_[index];
  Host& receiver = hosts_[flight.to];
  if (receiver.received_octets + flight.octets.size() > receiver.properties.receive_octets) {
    tell(flight, Fate::kReceiveFull, now);
    release(index);
    return;
  }
  receiver.received_octets += static_cast<std::uint32_t>(flight.octets.size());
  receiver.received.push_back(index);
  if (!receiver.listed) {
    receiver.listed = true;
    arrivals_.push_back(flight.to);
  }
}

void SimNetwork::advance(Instant now) {
  while (events_.earliest() <= now) {
    const Instant at = events_.earliest();
    const std::uint32_t index = events_.pop();
    if (flights_[index].at_switch) {
      enter_downlink(index, at);
    } else {
      arrive(index, at);
    }
  }
}

// True if the packet reached the receiver's engine.
bool SimNetwork::deliver(std::uint32_t index, Receiver& receiver, Instant now) {
  Flight& flight = flights_[index];
  SimPacket packet;
  Fate fate = Fate::kDelivered;
  switch (parse_sim_frame(flight.octets, flight.to, packet)) {
    case SimVerdict::kGood: break;
    case SimVerdict::kFrameRefused: fate = Fate::kFrameRefused; break;
    case SimVerdict::kIcrcRefused: fate = Fate::kIcrcRefused; break;
    case SimVerdict::kTransportRefused: fate = Fate::kTransportRefused; break;
  }
  tell(flight, fate, now);
  if (fate != Fate::kDelivered) return false;
  if (flight.must_be_refused) ++corruption_missed_;
  receiver.on_packet(packet.packet, packet.origin);
  return true;
}

}  // namespace rrdma::link
