// Lane: an engine with its lock and its links, as the doors (preload/) see it. Two lanes share nothing that is
// touched for a message, so a process can have several:
//
//   of a lane     the engine and its QPs, the lock, the links with the slot of UDP port 4791 (the top
//                 byte of its QPNs), the channels to peers, the wake-up protocol with its thread, the publisher
//   of a process  the daemon client, settings, devices and the interface monitor, the explain channel, the state of
//                 forks, the page of counters (Runtime and ProcessControl)
//
// nic/lane/lanes.h assigns QPs to lanes and owns what all lanes of a process read (the memory table).
#pragma once

#include <cstdint>

#include "base/instant.h"
#include "base/problem.h"
#include "base/result.h"
#include "host/clock.h"
#include "host/device.h"
#include "nic/lane/lane_lock.h"
#include "objects/path.h"
#include "transport/engine.h"

namespace rrdma::nic {

// The parameters for resolving an address vector.
struct PathRequest {
  wire::Gid remote;
  std::uint32_t local_gid_index = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  wire::Qpn local_qpn;
  wire::Qpn remote_qpn;   // connected QPs; decides whether the peer is a process of this host
  bool datagram = false;  // an address handle: remote_qpn is not known yet
};

// Events of QPs, in the order in which they happen. Called with the lane's lock held: only queue them.
class QpListener {
 public:
  virtual ~QpListener() = default;
  virtual void on_qp_event(transport::QueuePair& qp, transport::QpEvent event) = 0;
};

// Every access to the engine or a QP happens under the lock, with the exceptions that engine.h names.
class Lane {
 public:
  virtual ~Lane() = default;
  [[nodiscard]] LaneLock& mutex() { return mutex_; }

  // REQUIRES: the lock, for all calls down to send_held().
  [[nodiscard]] Instant now() { return clock_.now(); }
  [[nodiscard]] virtual transport::Engine& engine() = 0;
  // A QPN that no QP has; fails if all 65,535 of the lane's slot are taken.
  virtual Result<wire::Qpn, Problem> allocate_qpn() = 0;
  virtual void set_qp_listener(QpListener* listener) = 0;
  // Sends what the engine has to send.
  virtual void transmit(Instant now) = 0;
  // As transmit(), after posting to this QP: at once, or together with the next posts.
  virtual void transmit_posted(const transport::QueuePair& qp, Instant now) = 0;
  // Receives, handles timers, sends.
  virtual void progress() = 0;
  // Sends answers that wait for the program's reply. Call it before a change that would prevent them from being sent.
  virtual void send_held() = 0;

  // May block (asks the daemon, creates a shared-memory channel). REQUIRES: the lock is not held.
  virtual Result<objects::Path, Problem> resolve(const host::Device& device, const PathRequest& request) = 0;
  // For pollers: makes one round of progress unless another thread does. REQUIRES: the lock is not held.
  void poll() {
    if (!mutex_.try_lock()) return;
    progress();
    mutex_.unlock();
  }
  // For a thread that is about to sleep until an event: the lane's thread takes over.
  virtual void rely_on_thread() = 0;

  // Number of completion queues whose first lane this is. For nic/lane/lanes.h, under its mutex.
  [[nodiscard]] std::uint32_t queues() const { return queues_; }
  void add_queue() { ++queues_; }
  void remove_queue() { --queues_; }

 protected:
  [[nodiscard]] host::TickClock& clock() { return clock_; }

 private:
  LaneLock mutex_;
  host::TickClock clock_;
  std::uint32_t queues_ = 0;
};

}  // namespace rrdma::nic
