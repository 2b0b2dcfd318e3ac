#include "tools/decode/connections.h"

#include <algorithm>

namespace rrdma::tools {
namespace {

bool is_answer(wire::Kind kind) {
  return kind == wire::Kind::kAcknowledge || kind == wire::Kind::kReadResponse ||
         kind == wire::Kind::kAtomicAcknowledge;
}

}  // namespace

PacketEnds ends_of(const wire::RoceFrame& frame) {
  if (const auto* ip = std::get_if<wire::Ipv4Header>(&frame.network))
    return {wire::gid_of_ipv4(ip->source.octets), wire::gid_of_ipv4(ip->destination.octets)};
  if (const auto* ip = std::get_if<wire::Ipv6Header>(&frame.network))
    return {{ip->source.octets}, {ip->destination.octets}};
  const auto& grh = std::get<wire::Grh>(frame.network);
  return {grh.source, grh.destination};
}

void Connections::learn(const wire::Dissection& packet) {
  if (!packet.frame || !packet.transport) return;
  if (packet.cm) {
    learn_from_cm(packet);
  } else {
    learn_from_transport(packet);
  }
}

void Connections::learn_from_cm(const wire::Dissection& packet) {
  const PacketEnds ends = ends_of(*packet.frame);
  if (const auto* req = std::get_if<wire::CmReq>(&packet.cm->message)) {
    callers_[{ends.source, req->local_comm_id.value}] = req->local_qpn;
  } else if (const auto* rep = std::get_if<wire::CmRep>(&packet.cm->message)) {
    const auto caller = callers_.find({ends.destination, rep->remote_comm_id.value});
    if (caller == callers_.end()) return;
    sources_[{ends.destination, ends.source, rep->local_qpn.value}] = caller->second;
    sources_[{ends.source, ends.destination, caller->second.value}] = rep->local_qpn;
  }
}

std::uint32_t Connections::number_of(const Flow& flow) {
  const auto [found, is_new] = flows_.try_emplace(flow, static_cast<std::uint32_t>(flow_list_.size()));
  if (is_new) flow_list_.push_back(flow);
  return found->second;
}

std::uint32_t Connections::number_of(const wire::Gid& source, const wire::Gid& destination) {
  return routes_.try_emplace({source, destination}, static_cast<std::uint32_t>(routes_.size())).first->second;
}

void Connections::learn_from_transport(const wire::Dissection& packet) {
  const wire::Bth& bth = packet.transport->headers.bth;
  const wire::OpcodeShape& shape = wire::shape_of(bth.opcode);
  if (shape.deth || !shape.known()) return;
  const PacketEnds ends = ends_of(*packet.frame);
  const std::uint32_t flow = number_of({ends.source, ends.destination, bth.destination.value});
  if (shape.request) {
    const std::uint64_t route = number_of(ends.source, ends.destination);
    requests_[route << 24 | bth.psn.value] = flow;
    return;
  }
  if (!is_answer(shape.kind)) return;
  const std::uint64_t back = number_of(ends.destination, ends.source);
  const auto request = requests_.find(back << 24 | bth.psn.value);
  if (request != requests_.end()) ++votes_[{request->second, flow}];
}

// Start with the pairs that have the most answers, because PSNs of two connections may coincide by chance.
void Connections::settle() {
  std::vector<std::pair<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>>> ranked;
  for (const auto& [pair, count] : votes_) ranked.emplace_back(count, pair);
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [count, pair] : ranked) {
    const Flow& there = flow_list_[pair.first];
    const Flow& back = flow_list_[pair.second];
    if (sources_.contains(there) || sources_.contains(back)) continue;
    sources_[there] = wire::Qpn(std::get<2>(back));
    sources_[back] = wire::Qpn(std::get<2>(there));
  }
}

std::optional<wire::Qpn> Connections::source_qp(const wire::Dissection& packet) const {
  if (!packet.frame || !packet.transport) return std::nullopt;
  const wire::TransportHeaders& headers = packet.transport->headers;
  if (wire::shape_of(headers.bth.opcode).deth) return headers.deth.source;
  return source_qp(ends_of(*packet.frame), headers.bth.destination);
}

std::optional<wire::Qpn> Connections::source_qp(const PacketEnds& ends, wire::Qpn destination) const {
  const auto found = sources_.find({ends.source, ends.destination, destination.value});
  return found == sources_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace rrdma::tools
