// Datagram: the UD transport. A request is one packet and is complete once it was sent. An incoming datagram
// that does not fit the receive request is dropped and counted: a stranger must not be able to stop the QP.
#pragma once

#include "transport/core.h"

namespace rrdma::transport {

inline constexpr std::uint32_t kGrhOctets = 40;

class Datagram {
 public:
  Datagram(Core& core, QueuePair& qp, Instant now) : core_(core), qp_(qp), now_(now) {}

  void handle(const wire::TransportPacket& packet, const objects::PacketOrigin& origin);
  SendVerdict send_next(objects::FrameSink& sink);

 private:
  void write_header(const objects::SendEntry& entry, objects::Frame& frame) const;
  void count_sent(const objects::SendEntry& entry);
  SendVerdict fail_entry(objects::SendEntry& entry, objects::Status status, objects::Cause cause);

  Core& core_;
  QueuePair& qp_;
  Instant now_;
};

}  // namespace rrdma::transport
