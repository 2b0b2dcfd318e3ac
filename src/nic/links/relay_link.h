// RelayLink: datagrams between programs of this host without a network (another program holds port 4791). The
// daemon forwards each to the owner of the destination's slot. It is slow, and loses datagrams that the
// daemon cannot take at once, as UD may.
#pragma once

#include <span>

#include "control/client/daemon_client.h"
#include "link/link.h"

namespace rrdma::nic {

class RelayLink final : public link::Link {
 public:
  explicit RelayLink(control::DaemonClient& daemon) : daemon_(daemon) {}

  objects::Frame* reserve(const objects::Path&) override { return &frame_; }
  void commit(objects::Frame& frame) override;
  void flush(Instant) override {}
  // Packets from the daemon arrive as events of its client, not here.
  std::size_t poll(link::Receiver&, Instant, std::size_t) override { return 0; }
  std::span<const link::LinkCounter> counters() override { return {&relayed_, 1}; }

 private:
  control::DaemonClient& daemon_;
  objects::Frame frame_;
  link::LinkCounter relayed_{"relay_frames_sent", 0};
};

// A packet that arrived at the wrong process, in the form in which the daemon forwards it.
[[nodiscard]] control::FrameFields relayed(const wire::TransportPacket& packet,
                                           const objects::PacketOrigin& origin);

}  // namespace rrdma::nic
