#include "nic/links/relay_link.h"

#include <algorithm>

#include "base/guarded_copy.h"
#include "wire/icrc.h"

namespace rrdma::nic {

void RelayLink::commit(objects::Frame& frame) {
  control::FrameFields fields;
  fields.source = frame.path->local;
  fields.destination = frame.path->remote;
  fields.traffic_class = frame.path->traffic_class;
  fields.frame.assign(frame.header.begin(), frame.header.begin() + frame.header_octets);
  for (std::size_t i = 0; i < frame.span_count; ++i) {
    const objects::PayloadSpan& span = frame.spans[i];
    const std::size_t at = fields.frame.size();
    fields.frame.resize(at + span.length);
    if (!guarded_copy(fields.frame.data() + at, span.data, span.length))
      return;  // the sender's memory is unmapped
  }
  // without a network there is no ICRC: zero
  fields.frame.resize(fields.frame.size() + frame.pad + wire::kIcrcOctets);
  if (fields.frame.size() > control::kFrameMax) return;
  daemon_.forward_frame(fields);
  ++relayed_.value;
}

control::FrameFields relayed(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) {
  control::FrameFields fields;
  fields.source = origin.source;
  fields.destination = origin.destination;
  fields.traffic_class = origin.traffic_class;
  fields.frame.resize(wire::kHeaderOctetsMax);
  fields.frame.resize(wire::emit_transport_headers(packet.headers, fields.frame.data()));
  fields.frame.insert(fields.frame.end(), packet.payload.begin(), packet.payload.end());
  // The ICRC was already checked.
  fields.frame.resize(fields.frame.size() + packet.headers.bth.pad + wire::kIcrcOctets);
  return fields;
}

}  // namespace rrdma::nic
