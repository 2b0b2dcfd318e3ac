#include "tools/decode/packet_filter.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "tools/decode/connections.h"
#include "tools/suggestion.h"
#include "wire/address_text.h"

namespace rrdma::tools {
namespace {

const std::array<std::string, 4> kWords = {"qp=", "peer=", "op=", "errors"};

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(c == '_' ? ' ' : std::toupper(c)); });
  return result;
}

std::string names_of(const wire::Dissection& packet) {
  if (!packet.transport) return "";
  std::string names(wire::opcode_name(packet.transport->headers.bth.opcode));
  if (packet.cm) names += " " + std::string(wire::cm_message_name(wire::attribute_of(packet.cm->message)));
  if (wire::shape_of(packet.transport->headers.bth.opcode).aeth) {
    const wire::Aeth& aeth = packet.transport->headers.aeth;
    if (aeth.is_nak()) names += " NAK";
    if (aeth.is_rnr_nak()) names += " RNR NAK";
  }
  return upper(names);
}

}  // namespace

bool says_no(const wire::Dissection& packet) {
  if (packet.cm && std::holds_alternative<wire::CmRej>(packet.cm->message)) return true;
  if (!packet.transport || !wire::shape_of(packet.transport->headers.bth.opcode).aeth) return false;
  return packet.transport->headers.aeth.is_nak() || packet.transport->headers.aeth.is_rnr_nak();
}

bool PacketFilter::matches(const wire::Dissection& packet, const wire::CapturedPacket& captured,
                           std::optional<wire::Qpn> source) const {
  if (errors && packet.verdict != wire::PacketVerdict::kBad && !says_no(packet) && captured.comments.empty())
    return false;
  if (qp) {
    if (!packet.transport) return false;
    if (packet.transport->headers.bth.destination != *qp && source != qp) return false;
  }
  if (!peer.empty()) {
    if (!packet.frame) return false;
    const PacketEnds ends = ends_of(*packet.frame);
    if (wire::to_text(ends.source) != peer && wire::to_text(ends.destination) != peer) return false;
  }
  return operation.empty() || names_of(packet).find(operation) != std::string::npos;
}

Result<PacketFilter, std::string> parse_filter(std::span<const std::string> words) {
  PacketFilter filter;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (name == "qp") {
      char* end = nullptr;
      const unsigned long number = std::strtoul(value.c_str(), &end, 0);
      if (value.empty() || *end != '\0' || number > wire::kMask24)
        return Failure{"'" + value + "' is no queue pair number such as 0x000011"};
      filter.qp = wire::Qpn(static_cast<std::uint32_t>(number));
    } else if (name == "peer" && !value.empty()) {
      filter.peer = value;
    } else if (name == "op" && !value.empty()) {
      filter.operation = upper(value);
    } else if (word == "errors") {
      filter.errors = true;
    } else {
      const std::string meant = closest_word(name, kWords);
      return Failure{"'" + word + "' is no filter" +
                     (meant.empty() ? "" : ": did you mean '" + meant + "'?")};
    }
  }
  return filter;
}

}  // namespace rrdma::tools
