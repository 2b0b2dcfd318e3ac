// Lane: an engine with its lock, its links and its thread. It only connects them; each has a file of its own.
// Two lanes share nothing that is touched for a message, so a process can have several:
//
//   of a lane     the engine and its QPs, the lock, the links with the slot of UDP port 4791 (the top
//                 byte of its QPNs), the channels to peers, the wake-up protocol with its thread, the
//                 publisher
//   of a process  the daemon client, settings, devices and the interface monitor, the explain channel, the
//                 state of forks, the page of counters (Runtime and ProcessControl)
//
// nic/process/lanes.h assigns QPs to lanes and owns what all lanes of a process read (the memory table).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/instant.h"
#include "base/problem.h"
#include "base/result.h"
#include "control/capture_messages.h"
#include "control/client/daemon_client.h"
#include "host/clock.h"
#include "host/device.h"
#include "nic/lane/failure_log.h"
#include "nic/lane/feed.h"
#include "nic/lane/progress.h"
#include "nic/lane/publisher.h"
#include "nic/links/direct_publication.h"
#include "nic/links/lane_links.h"
#include "nic/links/lane_slot.h"
#include "nic/links/paths.h"
#include "nic/links/shm_peers.h"
#include "nic/settings.h"
#include "nic/wakeup/lane_lock.h"
#include "nic/wakeup/lane_thread.h"
#include "nic/wakeup/wakeup.h"
#include "objects/path.h"
#include "transport/engine.h"

namespace rrdma::nic {

// Events of QPs, in the order in which they happen. Called with the lane's lock held: only queue them.
class QpListener {
 public:
  virtual ~QpListener() = default;
  virtual void on_qp_event(transport::QueuePair& qp, transport::QpEvent event) = 0;
};

class Lane final : private transport::EventSink, private Duty {
 public:
  // Takes a slot and opens the links. The settings, the daemon client and the memory table must outlive the
  // lane. One lane of a process publishes the number of keys in the table (`counts_memory`).
  [[nodiscard]] static Result<std::unique_ptr<Lane>, Problem> open(const Settings& settings,
                                                                   control::DaemonClient& daemon,
                                                                   LaneInterface interface,
                                                                   objects::MemoryTable& memory,
                                                                   bool counts_memory);
  ~Lane() override;

  // The thread takes posts from there, too; null: no longer. The descriptor stays watched while it is open.
  // REQUIRES: the lock.
  void set_feed(Feed* feed);

  // Starts the thread. It also calls `handle_control` once at the start, and whenever one of these
  // descriptors is readable, without the lock: the thread of one lane serves the whole process. EAGAIN if no
  // thread can be started.
  [[nodiscard]] Result<void, Problem> start(std::span<const int> control,
                                            std::function<void()> handle_control);
  // Ends the thread.
  void stop() { thread_.stop(); }

  // For direct access to memory of peers that no CPU can touch. REQUIRES: before start().
  void set_far_copier(std::unique_ptr<objects::FarCopier> copier);
  // Lets peers access registered memory, present and future. REQUIRES: the locks of all lanes.
  void publish_memory();
  // From now on publishes only windows that are bound to a QP of this lane. REQUIRES: the locks of all lanes.
  void publish_own_windows_only();

  // Every access to the engine or a QP happens under the lock, with the exceptions that engine.h names.
  [[nodiscard]] LaneLock& mutex() { return mutex_; }

  // REQUIRES: the lock, for all calls down to publish_sums().
  [[nodiscard]] Instant now() { return clock_.now(); }
  [[nodiscard]] transport::Engine& engine() { return engine_; }
  // A QPN that no QP has; fails if all 65,535 of the lane's slot are taken.
  Result<wire::Qpn, Problem> allocate_qpn() { return slot_.allocate_qpn(engine_); }
  void set_qp_listener(QpListener* listener) { qp_listener_ = listener; }
  // Sends what the engine has to send.
  void transmit(Instant now) { progress_.transmit(now); }
  // As transmit(), after posting to this QP: at once, or together with the next posts.
  void transmit_posted(transport::QueuePair& qp, Instant now) { progress_.transmit_posted(qp, now); }
  // Receives, handles timers, sends.
  void progress() { progress_.poll(); }
  // Sends answers that wait for the program's reply. Call it before a change that would prevent them from
  // being sent.
  void send_held() { progress_.send_held(); }
  void publish_sums() { publisher_.publish_sums(engine_, links_.all()); }

  // Ends the lane, however the program ends: sends delayed answers, publishes counters, writes captures.
  // Answers are not delayed afterwards. False: the lock was not free in time, or the caller holds it. Peers
  // then learn from the last answers which messages were delivered (wire/last_answer.h).
  bool end(Duration patience);
  // May block (asks the daemon, creates a shared-memory channel). REQUIRES: the lock is not held.
  Result<objects::Path, Problem> resolve(const host::Device& device, const PathRequest& request);
  // For pollers: makes one round of progress unless another thread does. REQUIRES: the lock is not held.
  void poll() {
    if (!mutex_.try_lock()) return;
    progress();
    mutex_.unlock();
  }
  // For a thread that is about to sleep until an event: the lane's thread takes over.
  void rely_on_thread() { wakeup_.rely_on_thread(); }

  // Number of completion queues whose first lane this is. For nic/process/lanes.h, under its mutex.
  [[nodiscard]] std::uint32_t queues() const { return queues_; }
  void add_queue() { ++queues_; }
  void remove_queue() { --queues_; }

  // Daemon messages for this lane. REQUIRES: the lock is not held.
  [[nodiscard]] const LaneSlot& slot() const { return slot_; }
  void accept_channel(const control::ChannelOffered& offer, std::vector<OwnedFd> fds);
  void forget_peer(const control::PeerGone& gone);
  void deliver(const control::FrameFields& frame);
  void recognise(const wire::Gid& remote, std::uint8_t features);
  void open_network(control::GrantedSlot granted);
  void follow_capture_order(const control::CaptureOrder& order, std::vector<OwnedFd> fds);
  void set_faults(const std::vector<link::FaultScope>& scopes, bool packets_only);
  // Records an event that is not a packet. False if no capture is running here.
  bool note_in_captures(std::string_view text);
  // Records a message of the connection manager in the same way.
  bool record_mad(const control::MadSeen& mad);

 private:
  Lane(const Settings& settings, control::DaemonClient& daemon, control::GrantedSlot granted,
       LaneInterface interface, objects::MemoryTable& memory, bool counts_memory);
  void watch_shm(const Settings& settings);
  void watch_udp();
  void choose_packets();
  void place_last_answer(transport::QueuePair& qp, bool destroyed);

  void on_qp_event(transport::QueuePair& qp, transport::QpEvent event) override;
  void on_qp_changed(transport::QueuePair& qp, bool destroyed) override;
  void on_request_failed(transport::QueuePair& qp, const transport::FailedRequest& failed) override {
    if (const auto note = failures_.handle_failed(qp, failed, memory_, evidence_about(failed)))
      links_.note_in_captures(failed.at, note->text, note->facts);
  }
  void on_requests_flushed(transport::QueuePair& qp, std::uint32_t sends, std::uint32_t receives) override {
    failures_.handle_flushed(qp, sends, receives);
  }

  [[nodiscard]] LinkEvidence evidence_about(const transport::FailedRequest& failed) {
    return links_.evidence(failed.peer, failed.cause == objects::Cause::kPeerSilent, failed.at);
  }

  Served serve(std::span<const int> arrivals) override { return progress_.serve(arrivals); }
  bool look() override { return progress_.look(); }
  void publish(Instant now) override { progress_.publish(now); }
  void handle_control() override { handle_control_(); }

  LaneLock mutex_;
  host::TickClock clock_;
  std::uint32_t queues_ = 0;
  LaneSlot slot_;
  Publisher publisher_;
  FailureLog failures_;
  std::unique_ptr<objects::FarCopier> far_copier_;  // null: no direct access
  LaneLinks links_;
  std::unique_ptr<ShmPeers> peers_;            // null: no shared memory
  std::unique_ptr<DirectPublication> direct_;  // null: packets carry everything
  objects::MemoryTable& memory_;
  transport::Engine engine_;
  Paths paths_;
  QpListener* qp_listener_ = nullptr;
  bool captured_ = false;   // by order: everything goes as single packets
  bool disturbed_ = false;  // the same for faults
  EpollSleeper sleeper_;
  WakeUp wakeup_;
  Progress progress_;
  std::function<void()> handle_control_;
  LaneThread thread_;  // last: ends before anything that it serves
};

}  // namespace rrdma::nic
