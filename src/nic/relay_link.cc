#include "nic/relay_link.h"

#include <algorithm>

#include "base/guarded_copy.h"
#include "wire/grh.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"

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
      return;  // the sender's memory is gone
  }
  fields.frame.resize(fields.frame.size() + frame.pad + wire::kIcrcOctets);  // no network, no ICRC: zero
  if (fields.frame.size() > control::kFrameMax) return;
  daemon_.forward_frame(fields);
  ++relayed_.value;
}

void emit_relayed_grh(const control::FrameFields& frame, std::size_t payload_octets,
                      std::span<std::uint8_t, 40> to) {
  constexpr std::size_t kUdpOctets = 8;
  const auto behind_ip = static_cast<std::uint16_t>(kUdpOctets + payload_octets);
  if (frame.source.is_ipv4()) {
    wire::Ipv4Header ip;
    ip.tos = frame.traffic_class;
    ip.total_length = static_cast<std::uint16_t>(wire::kIpv4Octets + behind_ip);
    ip.source.octets = frame.source.ipv4();
    ip.destination.octets = frame.destination.ipv4();
    wire::emit_grh_area(ip, to);
    return;
  }
  wire::Ipv6Header ip;
  ip.traffic_class = frame.traffic_class;
  ip.payload_length = behind_ip;
  ip.source.octets = frame.source.octets;
  ip.destination.octets = frame.destination.octets;
  wire::emit_ipv6(ip, to);
}

}  // namespace rrdma::nic
