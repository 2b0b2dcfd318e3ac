#include "dissection/printer.h"

#include <algorithm>

#include "base/format.h"
#include "wire/address_text.h"
#include "wire/cm_ip_header.h"

namespace rrdma::wire {
namespace {

constexpr std::size_t kNameColumns = 28;   // fits most opcode names
constexpr std::size_t kLabelColumns = 30;  // label and value of a field, before its explanation
constexpr std::size_t kValueColumns = 28;

std::string coloured(std::string_view colour, std::string_view text, const Palette& palette) {
  return formatted("{}{}{}", colour, text, colour.empty() ? std::string_view{} : palette.reset);
}

// `text` padded to `columns` columns; the colour does not extend to the padding.
std::string column(std::string_view colour, std::string_view text, std::size_t columns,
                   const Palette& palette) {
  return coloured(colour, text, palette) +
         std::string(columns > text.size() ? columns - text.size() : 0, ' ');
}

std::string addresses(const RoceFrame& frame) {
  return std::visit([](const auto& ip) { return to_text(ip.source) + " > " + to_text(ip.destination); },
                    frame.network);
}

std::string_view flow_mark(const RoceFrame& frame) {
  const auto traffic_class = std::visit(
      [](const auto& ip) -> std::uint8_t {
        if constexpr (requires { ip.tos; }) {
          return ip.tos;
        } else {
          return ip.traffic_class;
        }
      },
      frame.network);
  return (traffic_class & 3) == 3 ? "  congestion-experienced" : "";
}

std::string extension_text(const TransportHeaders& headers, const Palette& palette) {
  const OpcodeShape& shape = shape_of(headers.bth.opcode);
  std::string text;
  if (shape.deth) {
    text +=
        formatted("  from qp 0x{:06x}  qkey 0x{:08x}", headers.deth.source.value, headers.deth.qkey.value);
  }
  if (shape.xrceth) text += formatted("  srq 0x{:06x}", headers.xrceth.srq);
  if (shape.feth) text += formatted("  flush {}", flush_text(headers.feth));
  if (shape.reth) {
    text += formatted("  va 0x{:x}  rkey 0x{:08x}  dma-len {}", headers.reth.address, headers.reth.rkey.value,
                      headers.reth.length);
  }
  if (shape.atomic_eth) {
    const AtomicEth& atomic = headers.atomic;
    text += formatted("  va 0x{:x}  rkey 0x{:08x}", atomic.address, atomic.rkey.value);
    text += headers.bth.opcode.step() == Step::kCompareSwap
                ? formatted("  compare 0x{:x}  swap 0x{:x}", atomic.compare, atomic.swap_or_add)
                : formatted("  add 0x{:x}", atomic.swap_or_add);
  }
  if (shape.aeth) {
    const auto colour = headers.aeth.is_ack() ? std::string_view{} : palette.alert;
    text += "  " + coloured(colour, syndrome_text(headers.aeth), palette) +
            formatted("  msn {}", headers.aeth.msn);
  }
  if (shape.atomic_ack_eth) text += formatted("  original 0x{:x}", headers.atomic_ack.original);
  if (shape.immediate) text += formatted("  imm 0x{:08x}", big_endian(headers.immediate.raw));
  if (shape.invalidate) text += formatted("  invalidate rkey 0x{:08x}", headers.invalidate.value);
  return text;
}

std::string service_words(std::uint64_t service_id) {
  const auto service = ip_service_of(service_id);
  if (!service) return formatted("to service 0x{:016x}", service_id);
  return formatted("to port {}", service->port);
}

std::string cm_words(const CmReq& req) {
  return formatted("{}  qp 0x{:06x}  psn {}  id 0x{:08x}", service_words(req.service_id), req.local_qpn.value,
                   req.starting_psn.value, req.local_comm_id.value);
}
std::string cm_words(const CmRep& rep) {
  return formatted("qp 0x{:06x}  psn {}  id 0x{:08x}  to id 0x{:08x}", rep.local_qpn.value,
                   rep.starting_psn.value, rep.local_comm_id.value, rep.remote_comm_id.value);
}
std::string cm_words(const CmRej& rej) {
  return formatted("reason {} ({})  id 0x{:08x}  to id 0x{:08x}", static_cast<unsigned>(rej.reason),
                   describe(rej.reason), rej.local_comm_id.value, rej.remote_comm_id.value);
}
std::string cm_words(const CmDreq& dreq) {
  return formatted("qp 0x{:06x}  id 0x{:08x}  to id 0x{:08x}", dreq.remote_qpn.value,
                   dreq.local_comm_id.value, dreq.remote_comm_id.value);
}
std::string cm_words(const CmSidrReq& req) {
  return formatted("{}  id 0x{:08x}", service_words(req.service_id), req.request_id.value);
}
std::string cm_words(const CmSidrRep& rep) {
  return formatted("status {} ({})  qp 0x{:06x}  qkey 0x{:08x}  to id 0x{:08x}",
                   static_cast<unsigned>(rep.status), describe(rep.status), rep.qpn.value, rep.qkey.value,
                   rep.request_id.value);
}
// MRA, RTU, DREP, LAP, APR.
template <typename Message>
std::string cm_words(const Message& message) {
  return formatted("id 0x{:08x}  to id 0x{:08x}", message.local_comm_id.value, message.remote_comm_id.value);
}

std::string mad_text(const Dissection& packet, const Palette& palette) {
  if (packet.cm) return "  " + coloured(palette.name, "CM", palette) + " " + cm_line(*packet.cm);
  if (packet.mad)
    return formatted("  MAD class 0x{:02x} ({})", packet.mad->management_class, packet.mad_note);
  return "";
}

std::string verdict_text(const Dissection& packet, const Palette& palette) {
  switch (packet.verdict) {
    case PacketVerdict::kGood: return "  " + coloured(palette.good, "icrc ok", palette);
    case PacketVerdict::kCut:
      return "  " + coloured(palette.alert, "icrc unchecked: " + packet.reason, palette);
    case PacketVerdict::kBad: {
      const bool icrc_bad = packet.frame && packet.icrc_checked() && !packet.frame->icrc_right();
      const std::string_view icrc = !packet.frame ? "" : icrc_bad ? "icrc bad  " : "icrc ok  ";
      return "  " + coloured(palette.bad, formatted("{}BAD: {}", icrc, packet.reason), palette);
    }
    case PacketVerdict::kForeign: return "";
  }
  return "";
}

void append_field(std::string& tree, const Field& field, std::size_t depth, const Palette& palette) {
  const std::string indent(4 + 2 * depth, ' ');
  tree += indent;
  if (field.is_group()) {
    tree += column(palette.name, field.label, 0, palette);
    if (!field.text.empty()) tree += ": " + field.text;
  } else {
    const std::size_t used = 2 * depth;
    tree += column({}, field.label, kLabelColumns > used ? kLabelColumns - used : 0, palette) + " ";
    tree += column({}, field.text, field.meaning.empty() ? 0 : kValueColumns, palette);
  }
  if (!field.meaning.empty()) tree += "  " + coloured(palette.faint, field.meaning, palette);
  tree += '\n';
  for (const Field& child : field.children) append_field(tree, child, depth + 1, palette);
}

}  // namespace

std::string transport_line(const TransportHeaders& headers, std::size_t payload_octets,
                           const Palette& palette) {
  const Bth& bth = headers.bth;
  std::string line = column(palette.name, opcode_name(bth.opcode), kNameColumns, palette);
  line += formatted("  qp 0x{:06x}  psn {}", bth.destination.value, bth.psn.value);
  if (bth.ack_request) line += "  ack-req";
  if (bth.solicited) line += "  solicited";
  if (bth.fecn) line += "  fecn";
  if (bth.becn) line += "  becn";
  line += extension_text(headers, palette);
  line += formatted("  len {}", payload_octets);
  return line;
}

std::string cm_line(const CmMad& mad) {
  return formatted("{} {}", cm_message_name(attribute_of(mad.message)),
                   std::visit([](const auto& message) { return cm_words(message); }, mad.message));
}

std::string packet_line(const Dissection& packet, const Palette& palette, std::optional<Qpn> source) {
  if (!packet.is_roce()) {
    const std::string link = packet.ethernet ? to_text(packet.ethernet->source) + " > " +
                                                   to_text(packet.ethernet->destination) + "  "
                                             : "";
    return coloured(palette.faint, link + "not RoCE: " + packet.reason, palette);
  }
  std::string line;
  if (packet.frame) {
    line += addresses(*packet.frame) + "  ";
    if (packet.frame->network_kind() == Network::kRoceV1) line += "v1  ";
  }
  if (packet.transport) {
    line += transport_line(packet.transport->headers, packet.transport->payload.size(), palette);
    if (source && !shape_of(packet.transport->headers.bth.opcode).deth)
      line += formatted("  from qp 0x{:06x}", source->value);
    line += mad_text(packet, palette);
  } else {
    line += coloured(palette.name, "RoCE packet", palette);
  }
  if (packet.frame) line += flow_mark(*packet.frame);
  return line + verdict_text(packet, palette);
}

std::string fields_tree(const Field& root, const Palette& palette) {
  std::string tree;
  for (const Field& field : root.children) append_field(tree, field, 0, palette);
  return tree;
}

std::string hex_dump(Octets octets, std::size_t indent) {
  constexpr std::size_t kPerLine = 16;
  std::string dump;
  for (std::size_t at = 0; at < octets.size(); at += kPerLine) {
    const Octets row = octets.subspan(at, std::min(kPerLine, octets.size() - at));
    std::string hex;
    std::string characters;
    for (const std::uint8_t octet : row) {
      hex += formatted("{:02x} ", octet);
      characters += octet >= 0x20 && octet < 0x7f ? static_cast<char>(octet) : '.';
    }
    dump += formatted("{:{}}{:04x}  {:<48} {}\n", "", indent, at, hex, characters);
  }
  return dump;
}

std::string seconds_text(std::int64_t ns) {
  const bool negative = ns < 0;
  const auto magnitude = negative ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  return formatted("{}{}.{:09}", negative ? "-" : "", magnitude / 1'000'000'000, magnitude % 1'000'000'000);
}

}  // namespace rrdma::wire
