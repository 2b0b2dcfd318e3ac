// HostLane: a lane over the links of this host. It only connects the engine, the links and the wake-up protocol; each
// has a file of its own. lane.h says what belongs to a lane and what to the process. A process may have several
// lanes: nothing here is static, and all of them share one daemon client.
//
// Threads: as in lane.h; the calls for ProcessControl take the lock themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "control/capture_messages.h"
#include "control/client/daemon_client.h"
#include "nic/direct_publication.h"
#include "nic/failure_log.h"
#include "nic/lane/lane.h"
#include "nic/lane/lane_links.h"
#include "nic/paths.h"
#include "nic/progress.h"
#include "nic/publication/publisher.h"
#include "nic/settings.h"
#include "nic/shm_peers.h"
#include "nic/slot/lane_slot.h"
#include "nic/wakeup/lane_thread.h"
#include "nic/wakeup/wakeup.h"

namespace rrdma::nic {

class HostLane final : public Lane, private transport::EventSink, private Duty {
 public:
  // Takes a slot and opens the links. The settings, the daemon client and the memory table must outlive the lane. One
  // lane of a process publishes the number of keys in the table (`counts_memory`).
  [[nodiscard]] static Result<std::unique_ptr<HostLane>, Problem> open(const Settings& settings,
                                                                       control::DaemonClient& daemon,
                                                                       LaneInterface interface,
                                                                       objects::MemoryTable& memory,
                                                                       bool counts_memory);
  ~HostLane() override;

  // Starts the thread. It also calls `handle_control` once at the start, and whenever one of these descriptors is
  // readable, without the lock: the thread of one lane serves the whole process. EAGAIN if no thread can be started.
  [[nodiscard]] Result<void, Problem> start(std::span<const int> control,
                                            std::function<void()> handle_control);
  // Ends the thread.
  void stop() { thread_.stop(); }

  // Lets peers access registered memory, present and future. REQUIRES: the locks of all lanes.
  void publish_memory();
  // From now on publishes only windows that are bound to a QP of this lane. REQUIRES: the locks of all lanes.
  void publish_own_windows_only();

  transport::Engine& engine() override { return engine_; }
  Result<wire::Qpn, Problem> allocate_qpn() override { return slot_.allocate_qpn(engine_); }
  void set_qp_listener(QpListener* listener) override { qp_listener_ = listener; }
  void transmit(Instant now) override { progress_.transmit(now); }
  void transmit_posted(const transport::QueuePair& qp, Instant now) override {
    progress_.transmit_posted(qp, now);
  }
  void progress() override { progress_.poll(); }
  void send_held() override { progress_.send_held(); }
  // REQUIRES: the lock.
  void publish_sums() { publisher_.publish_sums(engine_, links_.all()); }
  // Ends the lane, however the program ends: sends delayed answers, publishes counters, writes captures. Answers are not
  // delayed afterwards. False: the lock was not free in time, or the caller holds it. Peers then learn from the last
  // answers which messages were delivered (wire/last_answer.h).
  bool end(Duration patience);
  Result<objects::Path, Problem> resolve(const host::Device& device, const PathRequest& request) override;
  void rely_on_thread() override { wakeup_.rely_on_thread(); }

  // Daemon messages for this lane. REQUIRES: the lock is not held.
  [[nodiscard]] const LaneSlot& slot() const { return slot_; }
  void accept_channel(const control::ChannelOffered& offer, std::vector<OwnedFd> fds);
  void forget_peer(std::uint64_t token);
  void deliver(const control::FrameFields& frame);
  void recognise(const wire::Gid& remote, std::uint8_t features);
  void open_network(control::GrantedSlot granted);
  void follow_capture_order(const control::CaptureOrder& order, std::vector<OwnedFd> fds);
  void set_faults(const std::vector<link::FaultScope>& scopes, bool packets_only);
  // Records an event that is not a packet. False if no capture is running here.
  bool note_in_captures(std::string_view text);

 private:
  HostLane(const Settings& settings, control::DaemonClient& daemon, control::GrantedSlot granted,
           LaneInterface interface, objects::MemoryTable& memory, bool counts_memory);
  void watch_shm(const Settings& settings);
  void watch_udp();
  void choose_packets();
  void place_last_answer(transport::QueuePair& qp, bool destroyed);

  void on_qp_event(transport::QueuePair& qp, transport::QpEvent event) override;
  void on_qp_changed(transport::QueuePair& qp, bool destroyed) override;
  void on_request_failed(transport::QueuePair& qp, const transport::FailedRequest& failed) override {
    failures_.handle_failed(qp, failed, links_.lost_to_faults());
  }
  void on_requests_flushed(transport::QueuePair& qp, std::uint32_t sends, std::uint32_t receives) override {
    failures_.handle_flushed(qp, sends, receives);
  }

  Served serve(std::span<const int> arrivals) override { return progress_.serve(arrivals); }
  bool look() override { return progress_.look(); }
  void publish(Instant now) override { progress_.publish(now); }
  void handle_control() override { handle_control_(); }

  LaneSlot slot_;
  Publisher publisher_;
  FailureLog failures_;
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
