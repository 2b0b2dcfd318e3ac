#include "nic/lane/progress.h"

#include <algorithm>
#include <array>
#include <vector>

#include "nic/lane/round.h"
#include "nic/links/relay_link.h"
#include "wire/grh.h"

namespace rrdma::nic {
namespace {

constexpr int kThreadRounds = 64;
constexpr int kFedRounds = 4;  // then others get the lock; the feed's descriptor is still readable

}  // namespace

// ---- the program ----

void Progress::transmit(Instant now) {
  now_ = now;
  parts_.wakeup.note_post(now);
  send(now);
  end_call(now, parts_.links.next_deadline());
}

void Progress::transmit_posted(transport::QueuePair& qp, Instant now) {
  // A program that posts for long without a poll keeps the thread away as well.
  if (parts_.wakeup.take_look(now)) round(now, WakeUp::Caller::kProgram);
  if (qp.path.link == kShmLink && !posts_.any() && transmit_straight(qp, now)) return;
  if (qp.path.lossless || !qp.reliable()) return transmit(now);
  posts_.note_call(now);
  if (parts_.wakeup.take_arming()) posts_.note_arming();
  if (parts_.engine.in_flight() && posts_.take(now)) {
    parts_.wakeup.note_post(now);
    return;
  }
  transmit(now);
  posts_.note_end(parts_.clock.now());
}

// As transmit(), if that is all there is to send: then the other links have nothing to flush.
bool Progress::transmit_straight(transport::QueuePair& qp, Instant now) {
  now_ = now;
  parts_.links.note_time(now);
  if (!parts_.engine.transmit_straight(qp, parts_.links.sink(), now)) return false;
  parts_.wakeup.note_post(now);
  parts_.links.flush_near(now);
  parts_.engine.flushed(now);
  parts_.links.note_served();
  // The deadlines of the other links are those of the last call.
  end_call(now, parts_.links.near_deadline());
  return true;
}

void Progress::poll() {
  if (posts_.any()) posts_.note_call(parts_.clock.now());
  // If nothing has arrived, most polls end after checking shared memory, because reading the clock costs
  // more. So does asking the kernel, which an attending thread has just done.
  const bool quiet = (parts_.links.has_shm() ? parts_.links.is_quiet() : parts_.wakeup.attending()) &&
                     !parts_.engine.wants_transmit();
  if (!parts_.wakeup.note_poll(quiet)) return;
  const Instant now = parts_.clock.now();
  parts_.wakeup.note_look(now);
  round(now, WakeUp::Caller::kProgram);
  end_call(now, parts_.links.next_deadline());
  if (posts_.counts()) posts_.note_end(parts_.clock.now());
}

// Operations that finish at once leave nothing to poll for, and a program that polls continuously keeps the
// thread asleep. So the program publishes by itself. Beside a thread that stands by, it handles deadlines
// anyway.
void Progress::end_call(Instant now, Instant links_deadline) {
  if (parts_.wakeup.thread_sleeps() && parts_.wakeup.sleeps_beyond(next_deadline(links_deadline)))
    parts_.wakeup.note_deadline(settled_deadline());
  if (now >= publishes_at_) publish(now);
}

void Progress::send_held() {
  parts_.wakeup.give_up_reply();
  if (parts_.engine.wants_transmit()) transmit(parts_.clock.now());
}

void Progress::end() {
  ended_ = true;
  send_held();
}

// ---- the thread ----

Duty::Served Progress::serve(std::span<const int> arrivals) {
  const bool only_fed = feed_ != nullptr && arrivals.size() == 1 && arrivals.front() == feed_->fd();
  if (!only_fed) parts_.links.note_arrivals(arrivals);
  std::size_t received = 0, last = 0;
  for (int i = 0; i < kThreadRounds; ++i) {
    const bool fed = i < kFedRounds && take_feed();
    last = round(parts_.clock.now(), WakeUp::Caller::kThread);
    received += last;
    if (last == 0 && !fed) break;
  }
  forget_lost_channels();
  // The descriptors signal arrivals, not contents: leave nothing behind when the thread sleeps.
  const Instant deadline = last != 0 ? now_ : std::min(settled_deadline(), publish(now_));
  return {.received = received != 0, .now = now_, .deadline = deadline};
}

// Sends at once, so that a message for a QP of this lane arrives in the round that follows.
bool Progress::take_feed() {
  if (feed_ == nullptr || !feed_->pending()) return false;
  now_ = parts_.clock.now();
  feed_->take(now_);
  if (parts_.engine.wants_transmit()) send(now_);
  return true;
}

bool Progress::look() {
  const Instant now = parts_.clock.now();
  const bool received = round(now, WakeUp::Caller::kProgram) != 0;
  if (now >= publishes_at_) publish(now);
  return received;
}

void Progress::forget_lost_channels() {
  if (parts_.links.shm() == nullptr) return;
  while (const auto lost = parts_.links.shm()->poll_lost()) {
    fail_qps_of(*lost);
    parts_.peers->forget_channel(*lost);
  }
}

// ---- both ----

std::size_t Progress::round(Instant now, WakeUp::Caller caller) {
  now_ = now;
  return take_round(parts_.engine, parts_.links, parts_.wakeup, *this,
                    {.now = now, .caller = caller, .ended = ended_}, [this](Instant at) { send(at); });
}

void Progress::send(Instant now) {
  parts_.links.note_time(now);
  parts_.engine.transmit(parts_.links.sink(), now);
  parts_.links.flush(now);
  parts_.engine.flushed(now);
  posts_.clear();
  parts_.links.note_served();
}

// Direct requests that yielded continue at once, after others had the lock.
Instant Progress::next_deadline(Instant links_deadline) const {
  if (parts_.engine.has_yielded()) return now_;
  return std::min(parts_.engine.next_deadline(), links_deadline);
}

Instant Progress::settled_deadline() {
  if (parts_.engine.has_yielded()) return now_;
  return std::min(parts_.engine.settled_deadline(), parts_.links.next_deadline());
}

Instant Progress::publish(Instant now) {
  Instant next = parts_.publisher.publish(parts_.engine, parts_.links.all(), now);
  if (parts_.direct != nullptr && parts_.direct->review_exports())
    next = std::min(next, now + DirectPublication::kReviewInterval);
  publishes_at_ = std::min(next, now + Publisher::kInterval);
  return next;
}

void Progress::on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) {
  const wire::Qpn destination = packet.headers.bth.destination;
  // UDP GRO merged a packet for another process into a train of ours: the daemon knows its owner.
  if (!parts_.slot.holds(destination) && destination != wire::kMulticastQpn)
    return parts_.daemon.forward_frame(relayed(packet, origin));
  parts_.engine.handle_packet(packet, origin, now_);
}

// ---- messages of the daemon ----

void Progress::deliver(const control::FrameFields& frame) {
  wire::TransportPacket packet;
  if (frame.frame.size() < wire::kIcrcOctets) return;
  const Octets octets = Octets(frame.frame).first(frame.frame.size() - wire::kIcrcOctets);
  if (wire::parse_transport(octets, packet) != wire::TransportError::kNone) return;
  if (!parts_.slot.holds(packet.headers.bth.destination)) return;
  std::array<std::uint8_t, wire::kGrhOctets> grh{};
  wire::emit_grh_area({.source = frame.source,
                       .destination = frame.destination,
                       .traffic_class = frame.traffic_class,
                       .datagram_octets = frame.frame.size()},
                      grh);
  now_ = parts_.clock.now();
  const EventHold events(parts_.engine, parts_.links, ended_);
  parts_.engine.handle_packet(packet,
                              {.source = frame.source,
                               .destination = frame.destination,
                               .grh = grh.data(),
                               .traffic_class = frame.traffic_class},
                              now_);
  transmit(now_);
}

void Progress::forget_peer(std::uint64_t token) {
  if (parts_.peers == nullptr) return;
  receive_the_rest();
  for (const std::uint32_t channel : parts_.peers->channels_of(token)) {
    fail_qps_of(channel);
    parts_.peers->forget_channel(channel);
  }
  // The requests fail at a deadline that the lane's thread may not know yet.
  end_call(now_, parts_.links.next_deadline());
}

// A ring holds more than one burst.
void Progress::receive_the_rest() {
  for (int i = 0; i < kThreadRounds; ++i) {
    if (round(parts_.clock.now(), WakeUp::Caller::kThread) == 0) break;
  }
}

// The process behind the channel may have ended before it acknowledged the messages that it delivered. Its
// answer rows name them. The rows may lie in another channel to the same process.
void Progress::fail_qps_of(std::uint32_t channel) {
  now_ = parts_.clock.now();
  const link::ShmLink& shm = *parts_.links.shm();
  const std::uint32_t party = shm.party_of(channel);
  parts_.engine.for_each_qp([&](transport::QueuePair& qp) {
    if (qp.path.link != kShmLink || qp.path.party != party) return;
    if (const auto answer = shm.last_answer(channel, qp.remote))
      parts_.engine.handle_last_answer(qp, *answer, now_);
    if (qp.path.peer != channel) return;
    parts_.engine.peer_gone(qp, now_);
    qp.last_answer = nullptr;  // it goes with the channel
  });
}

}  // namespace rrdma::nic
