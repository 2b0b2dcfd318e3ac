// Progress: what a lane does with the processor time that it is given: it receives, lets the engine judge silence, and sends.
// The program gives the time in its calls, the lane's thread when it serves; which of them, and when, is WakeUp's.
//
// Threads: all calls under the lane's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/instant.h"
#include "control/client/daemon_client.h"
#include "host/clock.h"
#include "link/link.h"
#include "nic/lane/lane_links.h"
#include "nic/publication/publisher.h"
#include "nic/shm_peers.h"
#include "nic/slot/lane_slot.h"
#include "nic/wakeup/gathered_posts.h"
#include "nic/wakeup/wakeup.h"
#include "transport/engine.h"

namespace rrdma::nic {

// What it moves. All outlive it; `peers` is null where there is no shared memory.
struct ProgressParts {
  transport::Engine& engine;
  LaneLinks& links;
  const LaneSlot& slot;
  ShmPeers* peers;
  control::DaemonClient& daemon;
  Publisher& publisher;
  WakeUp& wakeup;
  host::TickClock& clock;
};

class Progress final : private link::Receiver {
 public:
  explicit Progress(const ProgressParts& parts) : parts_(parts) {}

  // The program has something to send.
  void transmit(Instant now);
  // It has posted.
  void transmit_posted(const transport::QueuePair& qp, Instant now);
  // The program polls.
  void poll();
  // Sends what waits for the program's reply.
  void send_held();

  // For the lane's thread: until nothing is left to do.
  Duty::Served serve(std::span<const int> arrivals);
  // Once, as the program does: whether something had come.
  bool look();
  Instant publish(Instant now);

  // A packet for us that the daemon brings.
  void deliver(const control::FrameFields& frame);
  // A process of this host is gone: what it sent before counts, what is under way to it fails.
  void forget_peer(std::uint64_t token);

 private:
  std::size_t round(Instant now, WakeUp::Caller caller);
  void send(Instant now);
  void end_call(Instant now);  // of the program, which may sleep afterwards
  void forget_lost_channels();
  void fail_qps_of(std::uint32_t channel);
  [[nodiscard]] Instant next_deadline() const;
  [[nodiscard]] Instant settled_deadline();
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override;

  const ProgressParts parts_;
  GatheredPosts posts_;
  Instant now_;           // of the present round
  Instant publishes_at_;  // in a call of the program: asked every time, it would cost a message
};

}  // namespace rrdma::nic
