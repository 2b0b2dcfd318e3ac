// HostLane: a lane over the links of this host. Composition only: it introduces the engine, the links and the wake-up
// protocol to one another; what each does is in its own file (lane.h says what is a lane's and what is the process's).
// A process may have several: nothing here is static, and all of them use one daemon's client.
//
// Threads: as lane.h says; the calls for ProcessControl take the lock themselves.
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
  // Takes a slot and opens the links. The settings, the daemon's client and the memory table outlive the lane. One lane of
  // a process tells how many keys the table has.
  [[nodiscard]] static Result<std::unique_ptr<HostLane>, Problem> open(const Settings& settings,
                                                                       control::DaemonClient& daemon,
                                                                       LaneInterface interface,
                                                                       objects::MemoryTable& memory,
                                                                       bool counts_memory);
  ~HostLane() override;

  // The thread begins. It also calls `handle_control` when one of these descriptors is readable, and once at
  // the beginning, without the lock: what is the process's is served by the thread of one lane. EAGAIN where there can be no thread.
  [[nodiscard]] Result<void, Problem> start(std::span<const int> control,
                                            std::function<void()> handle_control);
  // The thread ends.
  void stop() { thread_.stop(); }

  // Peers may use the memory that is registered, and what comes. REQUIRES: the locks of all lanes.
  void publish_memory();
  // From now on a window goes to peers only where it is bound to a QP of this lane. REQUIRES: the same.
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
  // The process ends: nothing that peers or captures wait for stays behind. REQUIRES: the lock.
  void end() {
    send_held();
    publish_sums();
    links_.write_captures();
  }
  Result<objects::Path, Problem> resolve(const host::Device& device, const PathRequest& request) override;
  void rely_on_thread() override { wakeup_.rely_on_thread(); }

  // What the daemon says that is this lane's. REQUIRES: not the lock.
  [[nodiscard]] const LaneSlot& slot() const { return slot_; }
  void accept_channel(const control::ChannelOffered& offer, std::vector<OwnedFd> fds);
  void forget_peer(std::uint64_t token);
  void deliver(const control::FrameFields& frame);
  void recognise(const wire::Gid& remote, std::uint8_t features);
  void open_network(control::GrantedSlot granted);
  void follow_capture_order(const control::CaptureOrder& order, std::vector<OwnedFd> fds);
  void set_faults(const std::vector<link::FaultScope>& scopes, bool packets_only);
  // Something that happened and is no packet. False: nothing is captured here.
  bool note_in_captures(std::string_view text);

 private:
  HostLane(const Settings& settings, control::DaemonClient& daemon, control::GrantedSlot granted,
           LaneInterface interface, objects::MemoryTable& memory, bool counts_memory);
  void watch_shm(const Settings& settings);
  void watch_udp();
  void choose_packets();

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
  LaneThread thread_;  // last: it ends before anything that it serves
};

}  // namespace rrdma::nic
