// ProcessLane: the lane of this process. Composition only: it introduces the engine, the links, the
// daemon's client and the background thread to one another.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "control/capture_messages.h"
#include "control/client/daemon_client.h"
#include "host/interfaces.h"
#include "host/netlink_device.h"
#include "link/capture_sink.h"
#include "link/link.h"
#include "link/shm/shm_link.h"
#include "link/udp/udp_link.h"
#include "nic/background.h"
#include "nic/link_switch.h"
#include "nic/live_capture.h"
#include "nic/publisher.h"
#include "nic/relay_link.h"
#include "nic/reply_habit.h"
#include "nic/runtime.h"
#include "nic/settings.h"
#include "nic/shm_peers.h"

namespace rrdma::nic {

class ProcessLane final : public Lane,
                          private link::Receiver,
                          private transport::EventSink,
                          private objects::PathProbe,
                          private objects::KeyListener,
                          private BackgroundWork,
                          private control::DaemonEvents {
 public:
  static Result<std::unique_ptr<ProcessLane>, Problem> open(const Settings& settings,
                                                            const std::string& devices,
                                                            std::uint32_t interface_index);
  ~ProcessLane() override;

  transport::Engine& engine() override { return engine_; }
  objects::MemoryTable& memory() override { return memory_; }
  Result<wire::Qpn, Problem> allocate_qpn() override;
  void set_qp_listener(QpListener* listener) override { qp_listener_ = listener; }
  void transmit(Instant now) override;
  void progress() override;
  void send_held() override;
  Result<objects::Path, Problem> resolve(const host::Device& device, const PathRequest& request) override;
  void rely_on_background() override;

  control::DaemonClient& daemon() override { return *daemon_; }
  void set_daemon_listener(DaemonListener* listener) override { daemon_listener_.store(listener); }
  // Keeps the device's port and GID table up to date, from now to the end.
  void follow(std::shared_ptr<host::NetlinkDevice> device);
  // What the tools show as the devices of this process: "rrdma0 on eth0, rrdma1 on eth1".
  void describe(std::string devices);

 private:
  ProcessLane(const Settings& settings, std::unique_ptr<control::DaemonClient> daemon,
              std::uint32_t interface_index);
  Result<void, Problem> take_slot();
  void attach(control::GrantedSlot granted);
  void watch_udp();
  void open_shm();
  void decorate(const std::string& interface);
  [[nodiscard]] link::Link* decorated(link::Link* link, const std::string& interface);
  [[nodiscard]] bool direct_allowed() const { return settings_.direct && !settings_.packets_only(); }
  void pass_on(const wire::TransportPacket& packet, const objects::PacketOrigin& origin);
  [[nodiscard]] bool holds_slot_of(wire::Qpn qpn) const;
  Result<bool, Problem> try_shm(const PathRequest& request, objects::Path& path);
  std::size_t poll_all(link::Look look, Instant now);
  void note_call();
  void tell_background();
  std::size_t round(Instant now, bool in_background);
  [[nodiscard]] bool waits_for_reply(bool in_background) const;
  void fail_qps_of(std::uint32_t channel);
  void follow_capture_order(const control::CaptureOrder& order, std::vector<OwnedFd> fds);
  void send_packets_only(bool packets_only);

  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override;
  void on_qp_event(transport::QueuePair& qp, transport::QpEvent event) override;
  void on_qp_changed(transport::QueuePair& qp, bool destroyed) override;
  void on_region_opened(const objects::MemoryRegion& region) override;
  void on_window_opened(const objects::MemoryWindow& window) override;
  void on_key_closed(wire::RKey key) override;
  bool taken(const objects::Path& path) const override;

  void note_arrival(int descriptor) override;
  bool work(Instant& deadline) override;
  bool arm() override;
  void disarm() override;
  void handle_control() override;
  bool tick() override;
  void resume() override;

  void handle_channel_offered(const control::ChannelOffered& offer, std::vector<OwnedFd> fds) override;
  void handle_peer_gone(std::uint8_t slot, std::uint64_t token) override;
  void handle_frame_forwarded(const control::FrameFields& frame) override;
  void handle_sockets_arrived(control::GrantedSlot slot) override;
  void handle_daemon_changed(std::span<const std::uint8_t> lost) override;
  void handle_other(control::Received& message) override;

  struct Slot {
    std::uint8_t number;
  };

  const Settings settings_;
  const std::uint32_t interface_index_;
  std::string interface_name_;  // as captures show it
  std::unique_ptr<control::DaemonClient> daemon_;
  Publisher publisher_;
  objects::MemoryTable memory_;
  transport::Engine engine_;
  QpListener* qp_listener_ = nullptr;
  std::atomic<DaemonListener*> daemon_listener_{nullptr};
  std::vector<Slot> slots_;
  std::unique_ptr<link::UdpLink> udp_;
  std::unique_ptr<link::ShmLink> shm_;
  RelayLink relay_;
  std::unique_ptr<link::CaptureFile> capture_;
  std::vector<std::unique_ptr<link::Link>> decorators_;
  std::unique_ptr<ShmPeers> peers_;
  LinkSwitch links_;
  LiveCapture live_capture_;
  host::InterfaceMonitor monitor_;
  std::vector<std::shared_ptr<host::NetlinkDevice>> devices_;
  Instant now_;                  // of the present round
  bool direct_enabled_ = false;  // peers know our memory; whether we use theirs is the engine's config
  Instant background_deadline_ = kNever;  // under the lock: when the thread wakes by itself
  std::atomic<bool> shm_armed_{false};    // changes under the lock; read without it by rely_on_background()
  int calls_while_armed_ = 0;
  int looks_spared_ = 0;
  ReplyHabit reply_habit_;
  std::vector<std::uint32_t> scratch_;
  std::vector<int> arrivals_;  // of the background thread: descriptors that became readable
  Background background_;      // last: its thread ends before anything that it serves
};

}  // namespace rrdma::nic
