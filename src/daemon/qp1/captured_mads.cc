#include "daemon/qp1/captured_mads.h"

#include <algorithm>
#include <utility>

#include "control/capture_messages.h"
#include "wire/cm_mad.h"
#include "wire/transport_packet.h"

namespace rrdma::daemon {
namespace {

using wire::PacketDirection;

control::MadSeen message_of(const MadPort::SeenMad& seen) {
  control::MadSeen message;
  message.source = seen.addresses.remote;
  message.destination = seen.addresses.local;
  message.direction = static_cast<std::uint8_t>(seen.direction);
  message.when_ns = EventLoop::now().ns;
  wire::TransportHeaders headers{};
  headers.bth.opcode = wire::Opcode(wire::Transport::kUnreliableDatagram, wire::Step::kSendOnly);
  headers.bth.pkey = wire::kDefaultPKey;
  headers.bth.destination = wire::kGeneralServicesQpn;
  headers.bth.psn = wire::Psn(seen.psn);
  headers.deth.qkey = kGeneralServicesQKey;
  headers.deth.source = wire::kGeneralServicesQpn;
  message.transport.resize(wire::kHeaderOctetsMax);
  message.transport.resize(wire::emit_transport_headers(headers, message.transport.data()));
  message.transport.insert(message.transport.end(), seen.mad.begin(), seen.mad.end());
  return message;
}

// Whether concerned_by() names the sender first.
bool sender_is_first(const wire::CmMessage& message) {
  return std::holds_alternative<wire::CmReq>(message) || std::holds_alternative<wire::CmSidrReq>(message);
}

}  // namespace

CapturedMads::CapturedMads(MadPort& port, const ConnectionService& connections, const Captures& captures)
    : connections_(connections), captures_(captures) {
  port.set_observer([this](const MadPort::SeenMad& seen) { pass_on(seen); });
}

// As any packet, a message between two programs of this host leaves one and arrives at the other. If only one
// of them is known, nobody can say which end it is.
void CapturedMads::pass_on(const MadPort::SeenMad& seen) const {
  const auto mad = wire::parse_cm_mad(seen.mad);
  if (!mad) return;
  const std::vector<Client*> programs = connections_.concerned_by(seen.addresses, *mad);
  const bool both = seen.direction == PacketDirection::kUnknown && programs.size() == 2 &&
                    std::all_of(programs.begin(), programs.end(),
                                [this](const Client* one) { return captures_.is_recording(*one); });
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (!captures_.is_recording(*programs[i])) continue;
    control::MadSeen message = message_of(seen);
    if (both) {
      const bool sends = (i == 0) == sender_is_first(mad->message);
      message.direction =
          static_cast<std::uint8_t>(sends ? PacketDirection::kOutbound : PacketDirection::kInbound);
    }
    (void)programs[i]->notify(message);
  }
}

}  // namespace rrdma::daemon
