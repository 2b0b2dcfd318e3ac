// UdpLink: RoCE v2 over UDP sockets of an unprivileged user. It receives on slot sockets of port 4791 from
// the daemon and sends from source ports of its own. It only composes parts: Transmitter builds and sends
// datagrams, Intake receives and checks them, HeldFrames keeps frames that the kernel had no room for.
//
// Room: a burst of kBurstFrames is collected before anything is sent; a full burst is sent at once. If the
// socket has no room, the rest of the burst is copied, and reserve() fails until it is sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ip_sockets.h"
#include "base/result.h"
#include "link/held_frames.h"
#include "link/link.h"
#include "link/udp/intake.h"
#include "link/udp/network_reports.h"
#include "link/udp/send_ports.h"
#include "link/udp/transmitter.h"
#include "link/udp/udp_config.h"
#include "link/udp/udp_counters.h"

namespace rrdma::link {

class UdpLink final : public Link {
 public:
  // Opens source ports for each family that a slot has. Fails only if no family has any.
  [[nodiscard]] static Result<std::unique_ptr<UdpLink>, SocketFailure> open(std::span<IpSockets> slots,
                                                                            const UdpConfig& config);
  // The same for a slot whose sockets a daemon keeps: what comes is received from `relay` (envelope.h).
  [[nodiscard]] static Result<std::unique_ptr<UdpLink>, SocketFailure> open_relayed(OwnedFd relay,
                                                                                    bool wants_ipv4,
                                                                                    bool wants_ipv6,
                                                                                    const UdpConfig& config);
  // Another daemon serves the slot: receives from these from now on, and from nothing else.
  void replace_sockets(IpSockets slot);
  void replace_relay(OwnedFd relay) { intake_.take_relay(std::move(relay)); }

  objects::Frame* reserve(const objects::Path& path) override;
  void commit(objects::Frame& frame) override;
  void flush(Instant now) override;
  std::size_t poll(Receiver& receiver, Instant now, std::size_t burst_max) override;
  void look_next(Look look) { intake_.look_next(look); }
  void note_arrival(int descriptor) { intake_.note_arrival(descriptor); }
  [[nodiscard]] Instant next_deadline() const override;
  [[nodiscard]] std::span<const LinkCounter> counters() override;

  // Descriptors for a sleeping thread: readable when poll() would find something.
  [[nodiscard]] std::span<const int> descriptors() const { return intake_.descriptors(); }
  // The UDP source port that packets on this path really carry; 0: the path is unusable. A path whose
  // source_port is that number keeps it.
  [[nodiscard]] std::uint16_t source_port(const objects::Path& path) const {
    return transmitter_.source_port(path);
  }
  // A lower bound on what the kernel queues for us, in bytes of packets of `packet_octets`. It limits what
  // may be in flight to this process.
  [[nodiscard]] std::size_t receive_room(std::size_t packet_octets) const;
  // Whether trains are segmented sends, and whether io_uring takes batches: as configured, unless the kernel
  // refused.
  [[nodiscard]] bool segments() const { return transmitter_.segments(); }
  [[nodiscard]] bool uses_uring() const { return transmitter_.uses_uring(); }
  [[nodiscard]] const UdpCounters& tally() const { return counters_; }
  // The errno of the last frame that could not be sent; 0: none.
  [[nodiscard]] int last_error() const { return transmitter_.last_error(); }
  // The network's answer by ICMP to packets for this address, if it is recent. Costs system calls: for
  // failures.
  [[nodiscard]] std::optional<NetworkReport> report_about(const wire::Gid& destination, Instant now) {
    reports_.collect(now);
    return reports_.about(destination, now);
  }

 private:
  // Retry interval while the socket has no room.
  static constexpr Duration kRoomRetry = microseconds(20);

  UdpLink(SendPorts ipv4, SendPorts ipv6, const UdpConfig& config);
  [[nodiscard]] static Result<std::unique_ptr<UdpLink>, SocketFailure> open_ports(bool wants_ipv4,
                                                                                  bool wants_ipv6,
                                                                                  const UdpConfig& config);
  void add_slot(IpSockets slot);
  void send_burst();
  void send_backlog();
  void hold(const objects::Frame& frame);

  SendPorts ipv4_;
  SendPorts ipv6_;
  const UdpConfig config_;
  UdpCounters counters_;
  Transmitter transmitter_;
  NetworkReports reports_;
  Intake intake_;

  std::vector<objects::Frame> burst_;
  std::size_t burst_count_ = 0;
  HeldFrames held_;
  std::array<objects::Frame*, kBurstFrames> backlog_{};  // oldest first; only while the burst is empty
  std::size_t backlog_count_ = 0;
  Instant last_flush_{};
  std::array<LinkCounter, kUdpCounterNames.size()> published_{};
};

}  // namespace rrdma::link
