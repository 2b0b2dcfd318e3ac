// LaneLinks: the links of a lane. It opens shared memory, the slot's sockets and the relay. It decorates them
// with faults and captures as the settings and the daemon order, and polls them in order of their cost
// (LinkSwitch).
//
// Threads: under the lane's lock, once the lane has started.
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
#include "nic/links/lane_interface.h"
#include "nic/links/link_evidence.h"
#include "nic/links/link_switch.h"
#include "nic/links/live_capture.h"
#include "nic/links/relay_link.h"
#include "nic/settings.h"
#include "nic/wakeup/wakeup.h"

namespace rrdma::nic {

class LaneLinks final : public objects::PathProbe, public Doorbells {
 public:
  // Opens what the settings allow. If a link cannot be opened, it reports the reason and the lane works
  // without it. The settings and the daemon client must outlive this object.
  LaneLinks(const Settings& settings, control::DaemonClient& daemon, control::GrantedSlot granted,
            LaneInterface interface);
  ~LaneLinks() override;

  // Port 4791 belonged to another program when the process started, and is available now; or another daemon
  // serves the slot. True if there are new descriptors to receive from.
  [[nodiscard]] bool open_late(control::GrantedSlot granted);
  // Null: not available.
  [[nodiscard]] link::ShmLink* shm() { return shm_.get(); }
  [[nodiscard]] link::UdpLink* udp() { return udp_.get(); }
  [[nodiscard]] bool has_shm() const { return shm_ != nullptr; }

  [[nodiscard]] objects::FrameSink& sink() { return switch_; }
  [[nodiscard]] std::span<link::Link* const> all() const { return switch_.all(); }
  // Call it before frames are committed: a capture may write them at once.
  void note_time(Instant now) {
    if (capture_ == nullptr) return;
    for (const auto& recorder : recorders_) {
      if (recorder != nullptr) recorder->note_time(now);
    }
  }
  void flush(Instant now) { switch_.flush(now); }
  // The same for shared memory alone.
  void flush_near(Instant now) {
    if (link::Link* const link = switch_.at(kShmLink); link != nullptr) link->flush(now);
  }
  // All answers to packets that poll() delivered have been sent.
  void note_served() {
    if (shm_ != nullptr) shm_->note_served();
  }
  [[nodiscard]] Instant next_deadline() const { return switch_.next_deadline(); }
  // The same of shared memory alone.
  [[nodiscard]] Instant near_deadline() const {
    const link::Link* const link = switch_.at(kShmLink);
    return link != nullptr ? link->next_deadline() : kNever;
  }
  std::size_t poll(link::Receiver& receiver, Instant now) { return switch_.poll(receiver, now, kBurst); }
  std::size_t poll_all(link::Look look, link::Receiver& receiver, Instant now) {
    if (udp_ != nullptr) udp_->look_next(look);
    return switch_.poll_all(receiver, now, kBurst);
  }
  // Checks with a few loads that nothing has arrived from this host. False if that is not possible.
  [[nodiscard]] bool is_quiet() const { return shm_ != nullptr && shm_->is_quiet(); }
  // The kernel has reported arrivals at these descriptors, or doorbells.
  void note_arrivals(std::span<const int> descriptors);

  // Replaces the injected faults while the program runs; empty: none. REQUIRES: no frame is reserved.
  void set_faults(const std::vector<link::FaultScope>& scopes);
  // Packets that injected faults have dropped so far, on all links.
  [[nodiscard]] std::uint64_t lost_to_faults() const;
  // Why requests to `peer` may have failed. `silent`: nothing came back, so the network is asked.
  [[nodiscard]] LinkEvidence evidence(const wire::Gid& peer, bool silent, Instant now);
  // On the daemon's order, while the program runs.
  void start_capture(OwnedFd socket, std::uint32_t snap_octets);
  // Destroy the result without the lane's lock: it may wait for the tool.
  std::unique_ptr<CaptureStream> stop_capture();
  // Records an event that is not a packet, or a packet that no link carried. False if no capture is running.
  bool note_in_captures(Instant now, std::string_view text, std::string_view facts = {});
  bool record_foreign(const link::CaptureLink::ForeignPacket& packet);
  // Writes everything captured so far to the file.
  void write_captures() {
    if (capture_ != nullptr) capture_->write_out();
    live_capture_.write_out();
  }

 private:
  static constexpr std::size_t kBurst = 64;
  void open_shm();
  void open_udp(control::GrantedSlot granted);
  [[nodiscard]] bool replace_sockets(control::GrantedSlot granted);
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
  // The decorators of each link, from the inside out. Captures see the effect of faults, as the peer would,
  // and their marks.
  std::unique_ptr<link::CaptureFile> capture_;
  std::array<link::Link*, kLinkCount> bare_{};
  std::array<std::unique_ptr<link::CaptureLink>, kLinkCount> recorders_;
  LiveCapture live_capture_;
  std::array<std::unique_ptr<link::FaultLink>, kLinkCount> faults_;  // from the settings
  std::array<std::unique_ptr<link::FaultGate>, kLinkCount> gates_;   // from rules
  std::array<link::FaultCounters, kLinkCount> done_by_faults_{};     // by gates that were removed
  std::vector<link::FaultScope> scopes_;
  LinkSwitch switch_;
};

}  // namespace rrdma::nic
