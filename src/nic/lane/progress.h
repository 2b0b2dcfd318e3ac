// Progress: what a lane does with CPU time: it receives, lets the engine handle timeouts, and sends. The
// program provides the time in its calls, the lane's thread when it serves. WakeUp decides which of them, and
// when.
//
// Threads: all calls under the lane's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/instant.h"
#include "control/client/daemon_client.h"
#include "host/clock.h"
#include "link/link.h"
#include "nic/lane/feed.h"
#include "nic/lane/publisher.h"
#include "nic/links/direct_publication.h"
#include "nic/links/lane_links.h"
#include "nic/links/lane_slot.h"
#include "nic/links/shm_peers.h"
#include "nic/wakeup/gathered_posts.h"
#include "nic/wakeup/wakeup.h"
#include "transport/engine.h"

namespace rrdma::nic {

// The parts that it drives. All must outlive it; `peers` is null without shared memory, `direct` if packets
// carry everything.
struct ProgressParts {
  transport::Engine& engine;
  LaneLinks& links;
  const LaneSlot& slot;
  ShmPeers* peers;
  control::DaemonClient& daemon;
  Publisher& publisher;
  const std::unique_ptr<DirectPublication>& direct;
  WakeUp& wakeup;
  host::TickClock& clock;
};

class Progress final : private link::Receiver {
 public:
  explicit Progress(const ProgressParts& parts) : parts_(parts) {}

  // The program has something to send.
  void transmit(Instant now);
  // The program has posted.
  void transmit_posted(transport::QueuePair& qp, Instant now);
  // The program polls.
  void poll();
  // Sends answers that wait for the program's reply.
  void send_held();
  // The program ends: sends delayed answers, and delays none from now on.
  void end();

  // Null: there is none.
  void set_feed(Feed* feed) { feed_ = feed; }

  // For the lane's thread: works until nothing is left to do.
  Duty::Served serve(std::span<const int> arrivals);
  // One round, as for the program. True if something had arrived.
  bool look();
  Instant publish(Instant now);

  // Delivers a packet that the daemon forwards to us.
  void deliver(const control::FrameFields& frame);
  // A process of this host is gone: packets that it sent before count, requests in flight to it fail.
  void forget_peer(std::uint64_t token);

 private:
  std::size_t round(Instant now, WakeUp::Caller caller);
  void send(Instant now);
  bool take_feed();
  bool transmit_straight(transport::QueuePair& qp, Instant now);
  void end_call(Instant now, Instant links_deadline);  // of the program, which may sleep afterwards
  void forget_lost_channels();
  void fail_qps_of(std::uint32_t channel);
  void receive_the_rest();
  [[nodiscard]] Instant next_deadline(Instant links_deadline) const;
  [[nodiscard]] Instant settled_deadline();
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override;

  const ProgressParts parts_;
  Feed* feed_ = nullptr;
  GatheredPosts posts_;
  bool ended_ = false;
  Instant now_;           // of the current round
  Instant publishes_at_;  // for calls of the program: checking every time would cost as much as a message
};

}  // namespace rrdma::nic
