#include "tools/decode/capture_summary.h"

#include <nlohmann/json.hpp>

#include "base/format.h"
#include "tools/decode/connections.h"
#include "tools/text_layout.h"
#include "wire/address_text.h"

namespace rrdma::tools {
namespace {

std::string qp_text(std::optional<wire::Qpn> qp) { return qp ? formatted("0x{:06x}", qp->value) : "?"; }

std::string seconds_of(const FlowSums& sums) {
  return formatted("{:.6f}", static_cast<double>(sums.last_ns - sums.first_ns) / 1e9);
}

}  // namespace

void CaptureSummary::add(const wire::Dissection& packet, std::uint64_t time_ns,
                         std::optional<wire::Qpn> source_qp) {
  if (!packet.frame || !packet.transport) return;
  const PacketEnds ends = ends_of(*packet.frame);
  const wire::TransportHeaders& headers = packet.transport->headers;
  FlowSums& sums = flows_[{ends.source, ends.destination, headers.bth.destination.value}];
  if (sums.packets == 0) sums.first_ns = time_ns;
  sums.first_ns = std::min(sums.first_ns, time_ns);
  sums.last_ns = std::max(sums.last_ns, time_ns);
  sums.source_qp = source_qp;
  ++sums.packets;
  sums.octets += packet.transport->payload.size();
  const wire::OpcodeShape& shape = wire::shape_of(headers.bth.opcode);
  if (shape.request && shape.ends_message) ++sums.requests;
  if (shape.kind == wire::Kind::kAcknowledge) {
    ++(headers.aeth.is_nak() ? sums.naks : headers.aeth.is_rnr_nak() ? sums.rnr_naks : sums.acks);
  }
  if (packet.verdict == wire::PacketVerdict::kBad) ++sums.bad;
}

std::string CaptureSummary::text(const wire::Palette& palette, std::size_t columns) const {
  Table table({{"FROM"},
               {"QP"},
               {"TO"},
               {"QP"},
               {"PACKETS", Align::kRight},
               {"BYTES", Align::kRight},
               {"REQUESTS", Align::kRight, 3},
               {"ACKS", Align::kRight, 2},
               {"NAKS", Align::kRight},
               {"RNR", Align::kRight},
               {"BAD", Align::kRight, 4},
               {"SECONDS", Align::kRight, 1}});
  const auto alarming = [&](std::uint64_t count, std::string_view colour) {
    return count == 0 ? Cell("0") : Cell(std::to_string(count), colour);
  };
  for (const auto& [flow, sums] : flows_) {
    const auto& [source, destination, qpn] = flow;
    table.add({wire::to_text(source), qp_text(sums.source_qp), wire::to_text(destination),
               qp_text(wire::Qpn(qpn)), std::to_string(sums.packets), std::to_string(sums.octets),
               std::to_string(sums.requests), std::to_string(sums.acks), alarming(sums.naks, palette.alert),
               alarming(sums.rnr_naks, palette.alert), alarming(sums.bad, palette.bad), seconds_of(sums)});
  }
  return table.empty() ? "No RoCE packet.\n" : table.text(palette.name, palette.reset, columns);
}

std::string CaptureSummary::json(std::uint64_t left_out) const {
  auto flows = nlohmann::ordered_json::array();
  for (const auto& [flow, sums] : flows_) {
    const auto& [source, destination, qpn] = flow;
    nlohmann::ordered_json json = {{"source", wire::to_text(source)},
                                   {"destination", wire::to_text(destination)},
                                   {"destination_qp", qpn},
                                   {"packets", sums.packets},
                                   {"octets", sums.octets},
                                   {"requests", sums.requests},
                                   {"acks", sums.acks},
                                   {"naks", sums.naks},
                                   {"rnr_naks", sums.rnr_naks},
                                   {"bad", sums.bad},
                                   {"first_ns", sums.first_ns},
                                   {"last_ns", sums.last_ns}};
    if (sums.source_qp) json["source_qp"] = sums.source_qp->value;
    flows.push_back(std::move(json));
  }
  return nlohmann::ordered_json{{"flows", flows}, {"left_out", left_out}}.dump(2) + "\n";
}

}  // namespace rrdma::tools
