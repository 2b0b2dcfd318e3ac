// LaneLinks: the links of a lane. It opens shared memory, the sockets of the slot and the relay, puts faults and captures
// around them as the settings and the daemon order, and polls them in the order that is worth it (LinkSwitch).
//
// Threads: under the lane's lock, once the lane has begun.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/owned_fd.h"
#include "control/client/daemon_client.h"
#include "link/capture_link.h"
#include "link/capture_sink.h"
#include "link/fault_gate.h"
#include "link/fault_link.h"
#include "link/link.h"
#include "link/shm/shm_link.h"
#include "link/udp/udp_link.h"
#include "nic/capture/live_capture.h"
#include "nic/lane/lane_interface.h"
#include "nic/link_switch.h"
#include "nic/relay_link.h"
#include "nic/settings.h"
#include "nic/wakeup/wakeup.h"

namespace rrdma::nic {

class LaneLinks final : public objects::PathProbe, public Doorbells {
 public:
  // Opens what the settings allow; says why where it cannot, and the lane does without. The settings and the daemon's
  // client outlive this.
  LaneLinks(const Settings& settings, control::DaemonClient& daemon, control::GrantedSlot granted,
            LaneInterface interface);
  ~LaneLinks() override;

  // The port was somebody else's when the process began, and is ours now. True if there is a network from now on.
  [[nodiscard]] bool open_late(control::GrantedSlot granted);
  // Null: there is none.
  [[nodiscard]] link::ShmLink* shm() { return shm_.get(); }
  [[nodiscard]] link::UdpLink* udp() { return udp_.get(); }
  [[nodiscard]] bool has_shm() const { return shm_ != nullptr; }

  [[nodiscard]] objects::FrameSink& sink() { return switch_; }
  [[nodiscard]] std::span<link::Link* const> all() const { return switch_.all(); }
  void flush(Instant now) { switch_.flush(now); }
  // What poll() delivered is answered as far as it will be.
  void note_served() {
    if (shm_ != nullptr) shm_->note_served();
  }
  [[nodiscard]] Instant next_deadline() const { return switch_.next_deadline(); }
  std::size_t poll(link::Receiver& receiver, Instant now) { return switch_.poll(receiver, now, kBurst); }
  std::size_t poll_all(link::Look look, link::Receiver& receiver, Instant now) {
    if (udp_ != nullptr) udp_->look_next(look);
    return switch_.poll_all(receiver, now, kBurst);
  }
  // A few loads tell that nothing has come from this host; false where they cannot.
  [[nodiscard]] bool is_quiet() const { return shm_ != nullptr && shm_->is_quiet(); }
  // The kernel told of arrivals at these descriptors, or of doorbells.
  void note_arrivals(std::span<const int> descriptors);

  // Faults on purpose, while the program runs; none: as before. REQUIRES: no frame is reserved.
  void set_faults(const std::vector<link::FaultScope>& scopes);
  // Packets that injected faults have dropped so far, on all links.
  [[nodiscard]] std::uint64_t lost_to_faults() const;
  // By order of the daemon, while the program runs.
  void start_capture(OwnedFd socket, std::uint32_t snap_octets);
  // What is left is best let go without the lane's lock: it may wait for the tool.
  std::unique_ptr<CaptureStream> stop_capture();
  // Something that happened and is no packet. False: nothing is captured.
  bool note_in_captures(Instant now, std::string_view text);
  // What was captured so far goes to its file.
  void write_captures() {
    if (capture_ != nullptr) capture_->write_out();
    live_capture_.write_out();
  }

 private:
  static constexpr std::size_t kBurst = 64;
  void open_shm();
  void open_udp(control::GrantedSlot granted);
  void open_capture_file();
  void attach(LinkIndex index, link::Link* link);
  void put_gate(LinkIndex index);
  void connect(LinkIndex index, bool captured = true);
  void connect_all(bool captured = true);

  bool answered(const objects::Path& path) const override;
  bool request() override { return shm_->arm(); }
  void suppress() override { shm_->disarm(); }
  void announce_polling() override { shm_->attend(); }
  void end_polling() override { shm_->attend_no_more(); }

  const Settings& settings_;
  control::DaemonClient& daemon_;
  const LaneInterface interface_;
  std::unique_ptr<link::UdpLink> udp_;
  std::unique_ptr<link::ShmLink> shm_;
  RelayLink relay_;
  // What stands around each link, inside out: captures see what faults did, as the other end would, and their marks.
  std::unique_ptr<link::CaptureFile> capture_;
  std::array<link::Link*, kLinkCount> bare_{};
  std::array<std::unique_ptr<link::CaptureLink>, kLinkCount> recorders_;
  LiveCapture live_capture_;
  std::array<std::unique_ptr<link::FaultLink>, kLinkCount> faults_;  // of the settings
  std::array<std::unique_ptr<link::FaultGate>, kLinkCount> gates_;   // of rules
  std::array<link::FaultCounters, kLinkCount> done_by_faults_{};     // by gates that are gone
  std::vector<link::FaultScope> scopes_;
  LinkSwitch switch_;
};

}  // namespace rrdma::nic
