#include "sim/cubic_flow.h"

#include <algorithm>

namespace rrdma::sim {
namespace {

constexpr std::uint64_t kOne = 1024;
constexpr std::uint64_t kFirstWindow = 10 * kOne;
constexpr std::uint64_t kLeastWindow = 2 * kOne;
constexpr std::uint32_t kWireOctets =
    CubicFlow::kSegmentOctets + 14 + 20 + 32;  // Ethernet, IPv4, TCP with timestamps

std::uint64_t cube_root(std::uint64_t value) {
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << 20; bit != 0; bit >>= 1) {
    const std::uint64_t tried = root | bit;
    if (tried * tried * tried <= value) root = tried;
  }
  return root;
}

}  // namespace

CubicFlow::CubicFlow(World& world, link::HostIndex to, std::uint64_t megabits_per_second, Duration rtt,
                     Instant begin)
    : world_(world), to_(to), megabits_per_second_(megabits_per_second), rtt_(rtt), window_(kFirstWindow) {
  world_.at(begin, [this] { send(); });
}

void CubicFlow::send() {
  while (std::uint64_t{under_way_} * kOne < window_) {
    ++under_way_;
    const std::uint64_t number = next_++;
    const auto time = nanoseconds(static_cast<std::int64_t>(kWireOctets * 8'000ull / megabits_per_second_));
    uplink_free_ = std::max(uplink_free_, world_.now()) + time;
    world_.at(uplink_free_ + rtt_ / 4, [this, number] { enter_queue(number); });
  }
}

void CubicFlow::enter_queue(std::uint64_t number) {
  const Instant now = world_.now();
  if (const auto arrival = world_.network().cross(to_, kWireOctets, now)) {
    world_.at(*arrival + rtt_ / 2, [this, number] { acknowledge(number); });
  } else {
    // Segments behind it reveal the loss. They wait in the same full queue first.
    const std::uint64_t queue = world_.network().backlog(to_, now);
    const auto wait = nanoseconds(static_cast<std::int64_t>(queue * 8'000 / megabits_per_second_));
    world_.at(now + wait + rtt_ * 3 / 4, [this, number] { lose(number); });
  }
}

void CubicFlow::acknowledge(std::uint64_t) {
  --under_way_;
  octets_ += kSegmentOctets;
  grow();
  send();
}

// RFC 9438: the larger of the cubic function of the time since the last loss and Reno's window.
void CubicFlow::grow() {
  if (window_ < threshold_) {
    window_ += kOne;
    return;
  }
  friendly_ += kOne * kOne * 9 / 17 / std::max(window_, kOne);
  const auto passed = (world_.now() - since_).ns / 1'000'000;
  const std::int64_t from_bend = passed - static_cast<std::int64_t>(bend_ms_);
  const std::int64_t term = from_bend * from_bend * from_bend / 1'000'000 * 4 * 1024 / 10'000;
  const std::int64_t cubic = static_cast<std::int64_t>(most_) + term;
  const auto wanted = std::max(friendly_, static_cast<std::uint64_t>(std::max<std::int64_t>(cubic, 0)));
  if (wanted > window_) window_ += std::min((wanted - window_) * kOne / window_, kOne / 2);
}

void CubicFlow::lose(std::uint64_t number) {
  --under_way_;
  if (number >= recovery_) {
    recovery_ = next_;
    most_ = window_;
    window_ = std::max(window_ * 7 / 10, kLeastWindow);
    threshold_ = friendly_ = window_;
    since_ = world_.now();
    bend_ms_ = cube_root(most_ / kOne * 750'000'000);
  }
  send();
}

}  // namespace rrdma::sim
