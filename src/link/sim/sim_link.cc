// SimLink: a host's end of the simulated network. It gathers frames at flush(), like a real link, so a span
// that is freed too early shows.
#include <algorithm>

#include "base/assert.h"
#include "link/sim/sim_network.h"

namespace rrdma::link {
namespace {

// The largest headers of a frame: Ethernet, IPv6, UDP, BTH and extensions, ICRC.
constexpr std::uint32_t kHeadersMax = 14 + 40 + 8 + 44 + 4;

}  // namespace

bool SimLink::has_arrivals() const { return !network_.hosts_[host_].received.empty(); }

objects::Frame* SimLink::reserve(const objects::Path& path) {
  auto& host = network_.hosts_[host_];
  const CableProperties& up = host.properties.up;
  const std::uint64_t backlog = host.up_free <= now_ ? 0
                                                     : static_cast<std::uint64_t>((host.up_free - now_).ns) *
                                                           up.megabits_per_second / 8'000;
  if (pending_.size() >= kBurstMax || backlog + pending_octets_ > up.queue_octets) {
    ++network_.fates_[static_cast<std::size_t>(Fate::kNoRoom)];
    ++host.fates[static_cast<std::size_t>(Fate::kNoRoom)];
    return nullptr;
  }
  reserved_.clear();
  reserved_.path = &path;
  return &reserved_;
}

void SimLink::commit(objects::Frame& frame) {
  RRDMA_ASSERT(&frame == &reserved_ && frame.header_octets != 0);
  pending_.push_back(frame);
  pending_octets_ += frame.payload_octets + kHeadersMax;
}

void SimLink::flush(Instant now) {
  now_ = std::max(now_, now);
  for (const objects::Frame& frame : pending_) network_.send(host_, frame, now);
  pending_.clear();
  pending_octets_ = 0;
}

Instant SimLink::room_at(Instant now) const {
  const auto& host = network_.hosts_[host_];
  const CableProperties& up = host.properties.up;
  // Half of the queue, so that a burst fits when the host wakes.
  const auto half = nanoseconds(
      static_cast<std::int64_t>(std::uint64_t{up.queue_octets} / 2 * 8'000 / up.megabits_per_second));
  return std::max(now + nanoseconds(1), host.up_free - half);
}

std::size_t SimLink::poll(Receiver& receiver, Instant now, std::size_t burst_max) {
  now_ = std::max(now_, now);
  auto& host = network_.hosts_[host_];
  std::size_t handed = 0;
  while (handed < burst_max && !host.received.empty()) {
    const std::uint32_t flight = host.received.front();
    host.received.pop_front();
    host.received_octets -= static_cast<std::uint32_t>(network_.flights_[flight].octets.size());
    network_.deliver(flight, receiver, now);
    network_.release(flight);
    ++handed;
  }
  if (host.received.empty()) host.listed = false;
  return handed;
}

std::span<const LinkCounter> SimLink::counters() {
  const auto& fates = network_.hosts_[host_].fates;
  for (std::size_t i = 0; i < kFateCount; ++i) counters_[i] = {describe(static_cast<Fate>(i)), fates[i]};
  return counters_;
}

}  // namespace rrdma::link
