#include "link/udp/udp_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/raw_syscall.h"
#include "wire/opcode.h"

namespace rrdma::link {

using objects::Frame;

namespace {

bool is_answer(wire::Kind kind) {
  return kind == wire::Kind::kAcknowledge || kind == wire::Kind::kAtomicAcknowledge ||
         kind == wire::Kind::kReadResponse;
}

}  // namespace

Result<std::unique_ptr<UdpLink>, SocketFailure> UdpLink::open(std::span<IpSockets> slots,
                                                              const UdpConfig& config) {
  const bool wants_ipv4 =
      std::any_of(slots.begin(), slots.end(), [](const IpSockets& s) { return s.v4.valid(); });
  const bool wants_ipv6 =
      std::any_of(slots.begin(), slots.end(), [](const IpSockets& s) { return s.v6.valid(); });
  auto link = open_ports(wants_ipv4, wants_ipv6, config);
  if (!link) return link;
  for (IpSockets& slot : slots) (*link)->add_slot(std::move(slot));
  return link;
}

Result<std::unique_ptr<UdpLink>, SocketFailure> UdpLink::open_relayed(OwnedFd relay, bool wants_ipv4,
                                                                      bool wants_ipv6,
                                                                      const UdpConfig& config) {
  auto link = open_ports(wants_ipv4, wants_ipv6, config);
  if (link) (*link)->replace_relay(std::move(relay));
  return link;
}

void UdpLink::replace_sockets(IpSockets slot) {
  intake_.drop_sockets();
  add_slot(std::move(slot));
}

Result<std::unique_ptr<UdpLink>, SocketFailure> UdpLink::open_ports(bool wants_ipv4, bool wants_ipv6,
                                                                    const UdpConfig& config) {
  const std::uint64_t seed =
      config.port_seed != 0 ? config.port_seed : static_cast<std::uint64_t>(raw::getpid()) * 0x9e3779b1u >> 7;
  SocketFailure failure{"finding a slot socket to receive from", EBADF};
  SendPorts ipv4;
  SendPorts ipv6;
  if (wants_ipv4) {
    if (auto ports = SendPorts::open(AF_INET, config, seed)) {
      ipv4 = std::move(*ports);
    } else {
      failure = ports.error();
    }
  }
  if (wants_ipv6) {
    if (auto ports = SendPorts::open(AF_INET6, config, seed)) {
      ipv6 = std::move(*ports);
    } else {
      failure = ports.error();
    }
  }
  if (ipv4.empty() && ipv6.empty()) return Failure{failure};
  return std::unique_ptr<UdpLink>(new UdpLink(std::move(ipv4), std::move(ipv6), config));
}

UdpLink::UdpLink(SendPorts ipv4, SendPorts ipv6, const UdpConfig& config)
    : ipv4_(std::move(ipv4)),
      ipv6_(std::move(ipv6)),
      config_(config),
      transmitter_(ipv4_, ipv6_, config, counters_),
      reports_(ipv4_, ipv6_),
      intake_(counters_),
      burst_(kBurstFrames),
      held_(kBurstFrames) {}

void UdpLink::add_slot(IpSockets slot) {
  for (OwnedFd* socket : {&slot.v4, &slot.v6}) {
    if (!socket->valid()) continue;
    if (config_.receive_buffer_octets > 0) {
      (void)raw::setsockopt(socket->get(), SOL_SOCKET, SO_RCVBUF, config_.receive_buffer_octets);
    }
    intake_.add_socket(std::move(*socket));
  }
}

Frame* UdpLink::reserve(const objects::Path& path) {
  if (backlog_count_ != 0) send_backlog();
  if (backlog_count_ == 0 && burst_count_ == kBurstFrames) send_burst();
  if (backlog_count_ != 0) return nullptr;
  Frame& frame = burst_[burst_count_];
  frame.clear();
  frame.path = &path;
  return &frame;
}

void UdpLink::commit(Frame& frame) {
  RRDMA_ASSERT(&frame == &burst_[burst_count_]);
  RRDMA_ASSERT(frame.payload_octets <= kHeldPayloadOctetsMax && frame.path != nullptr);
  ++burst_count_;
}

void UdpLink::flush(Instant now) {
  last_flush_ = now;
  if (transmitter_.take_reported()) reports_.collect(now);
  if (backlog_count_ != 0) {
    send_backlog();
    return;  // the burst is empty: reserve() failed
  }
  if (burst_count_ != 0) send_burst();
}

// Moves an acknowledgement behind the requests of its QP: as the shorter last packet it can be part of their
// train.
void UdpLink::send_burst() {
  std::array<const Frame*, kBurstFrames> frames;
  for (std::size_t i = 0; i < burst_count_; ++i) {
    frames[i] = &burst_[i];
    if (i != 0 && frames[i - 1]->path == frames[i]->path &&
        frames[i - 1]->kind() == wire::Kind::kAcknowledge && !is_answer(frames[i]->kind())) {
      std::swap(frames[i - 1], frames[i]);
    }
  }
  const auto unsent = transmitter_.transmit(std::span(frames).first(burst_count_));
  for (const Frame* frame : unsent) hold(*frame);
  burst_count_ = 0;
}

void UdpLink::hold(const Frame& frame) {
  const HeldFrames::Held held = held_.hold(frame);
  if (held.verdict == HeldFrames::Verdict::kHeld) {
    backlog_[backlog_count_++] = held.frame;
    return;
  }
  RRDMA_ASSERT(held.verdict == HeldFrames::Verdict::kUnreadable);
  ++counters_.dropped_unreadable;
}

void UdpLink::send_backlog() {
  const auto unsent = transmitter_.transmit(std::span<const Frame* const>(backlog_.data(), backlog_count_));
  // Unsent frames are in the order of the backlog, so one pass separates the two.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < backlog_count_; ++i) {
    Frame* const frame = backlog_[i];
    if (kept < unsent.size() && unsent[kept] == frame) {
      backlog_[kept++] = frame;
    } else {
      held_.release(frame);
    }
  }
  backlog_count_ = kept;
}

std::size_t UdpLink::poll(Receiver& receiver, Instant now, std::size_t burst_max) {
  return intake_.poll(receiver, now, burst_max);
}

Instant UdpLink::next_deadline() const { return backlog_count_ == 0 ? kNever : last_flush_ + kRoomRetry; }

std::span<const LinkCounter> UdpLink::counters() {
  for (std::size_t i = 0; i < kUdpCounterNames.size(); ++i) {
    published_[i] = {kUdpCounterNames[i].name, counters_.*kUdpCounterNames[i].member};
  }
  return published_;
}

std::size_t UdpLink::receive_room(std::size_t packet_octets) const {
  std::size_t least = 0;
  for (const int fd : intake_.descriptors()) {
    int octets = 0;
    socklen_t size = sizeof octets;
    if (raw::getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &octets, &size) < 0 || octets <= 0) continue;
    const auto room = static_cast<std::size_t>(octets);
    least = least == 0 ? room : std::min(least, room);
  }
  // The kernel charges whole buffers, not bytes: a head of 768 for each packet, and pages.
  constexpr std::size_t kHead = 768;
  const std::size_t charged = kHead + (packet_octets + 2047) / 2048 * 2048;
  return least / charged * packet_octets;
}

}  // namespace rrdma::link
