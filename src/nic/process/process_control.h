// ProcessControl: the parts that a process has once, however many lanes it has. These are the connection to
// the daemon, whose events it passes to the right lane, and the monitor of the interfaces of its devices.
//
// Threads: any, except handle(), which the thread of one lane calls whenever one of the descriptors is
// readable.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "control/capture_messages.h"
#include "control/client/daemon_client.h"
#include "host/interfaces.h"
#include "host/netlink_device.h"
#include "nic/process/daemon_listener.h"
#include "nic/process/process_faults.h"
#include "nic/settings.h"

namespace rrdma::nic {

class Lane;

class ProcessControl final : private control::DaemonEvents {
 public:
  // Connects to the daemon and starts it if necessary. `devices` is for the tools: "rrdma0 on eth0, rrdma1 on
  // eth1".
  [[nodiscard]] static Result<std::unique_ptr<ProcessControl>, Problem> connect(const Settings& settings,
                                                                                const std::string& devices);

  [[nodiscard]] control::DaemonClient& daemon() { return *daemon_; }
  void set_listener(DaemonListener* listener) { listener_.store(listener); }
  void describe(std::string devices);
  // Keeps the device's port and GID table up to date from now on.
  void follow(std::shared_ptr<host::NetlinkDevice> device);

  // Faults and captures already ordered also apply to the new lane. The lane receives its events until it is
  // removed; remove() waits for an event in progress. REQUIRES: remove() is not called from handle().
  void add(Lane& lane);
  void remove(Lane& lane);

  [[nodiscard]] std::vector<int> descriptors() const;
  void handle();

 private:
  ProcessControl(const Settings& settings, std::unique_ptr<control::DaemonClient> daemon)
      : settings_(settings),
        daemon_(std::move(daemon)),
        faults_([this] { apply_faults(); }, [this](const std::string& line) { note_in_captures(line); }) {}
  void keep(std::shared_ptr<host::NetlinkDevice> device);
  void refresh_devices();
  // Empty if they cannot be read now: this is reported, and handle() tries again.
  [[nodiscard]] std::vector<host::Interface> current_interfaces();
  void apply_faults();
  void note_in_captures(const std::string& line);
  void pass_on_faults();
  void record_mad(control::MadSeen mad);
  // REQUIRES: lanes_mutex_.
  [[nodiscard]] bool try_record_mad(const control::MadSeen& mad);
  void follow_capture_order(const control::CaptureOrder& order, std::vector<OwnedFd> fds);
  // REQUIRES: lanes_mutex_. Null: not one of our slots.
  [[nodiscard]] Lane* find_lane(control::Slot slot) const;

  void handle_channel_offered(const control::ChannelOffered& offer, std::vector<OwnedFd> fds) override;
  void handle_peer_gone(const control::PeerGone& gone) override;
  void handle_frame_forwarded(const control::FrameFields& frame) override;
  void handle_sockets_arrived(control::GrantedSlot slot) override;
  void handle_daemon_changed(std::span<const control::Slot> lost) override;
  void handle_other(control::Received& message) override;

  const Settings& settings_;
  const std::unique_ptr<control::DaemonClient> daemon_;
  host::InterfaceMonitor monitor_;
  std::atomic<bool> interfaces_unread_{false};  // although they have changed
  std::atomic<DaemonListener*> listener_{nullptr};
  std::mutex devices_mutex_;
  std::vector<std::shared_ptr<host::NetlinkDevice>> devices_;
  std::mutex lanes_mutex_;  // locked before any lane's lock
  std::vector<Lane*> lanes_;
  control::CaptureOrder capture_order_;   // currently in effect
  std::vector<OwnedFd> capture_channel_;  // for it
  // Messages of the connection manager that came before the first lane: a server is called before it has a
  // queue pair.
  static constexpr std::size_t kEarlyMadsMax = 256;
  std::vector<control::MadSeen> early_mads_;
  std::atomic<bool> packets_only_{false};  // by order: another program's faults must apply
  ProcessFaults faults_;                   // last, because it calls back
};

}  // namespace rrdma::nic
