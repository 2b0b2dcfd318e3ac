#include "tools/decode/packet_filter.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "base/format.h"
#include "tools/decode/connections.h"
#include "tools/suggestion.h"
#include "wire/address_text.h"
#include "wire/pcapng_format.h"

namespace rrdma::tools {
namespace {

const std::array<std::string, 8> kWords = {
    "qp=", "peer=", "op=", "psn=", "len>", "rkey=", "status=", "errors"};
const std::array<std::string_view, 8> kAnswers = {"ack",     "nak",    "rnr",         "sequence",
                                                  "invalid", "access", "operational", "rej"};

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

// The answer of a packet: "nak access", "ack", "rnr", "rej"; empty if it answers nothing.
std::string answer_of(const wire::Dissection& packet) {
  if (packet.cm && std::holds_alternative<wire::CmRej>(packet.cm->message)) return "rej";
  if (!packet.transport || !wire::shape_of(packet.transport->headers.bth.opcode).aeth) return "";
  const wire::Aeth& aeth = packet.transport->headers.aeth;
  if (aeth.is_rnr_nak()) return "rnr";
  if (!aeth.is_nak()) return "ack";
  constexpr std::string_view kNames[] = {"nak sequence", "nak invalid", "nak access", "nak operational"};
  return std::string(aeth.code() < std::size(kNames) ? kNames[aeth.code()] : "nak");
}

bool fits_answer(const std::string& answer, const std::string& wanted) {
  return answer == wanted || answer.starts_with(wanted + " ") || answer.ends_with(" " + wanted);
}

bool fits_rkey(const wire::TransportHeaders& headers, const NumberTest& test) {
  const wire::OpcodeShape& shape = wire::shape_of(headers.bth.opcode);
  if (shape.reth) return test.holds(headers.reth.rkey.value);
  return shape.atomic_eth && test.holds(headers.atomic.rkey.value);
}

// `psn`, `len` and `rkey`. False: the word is none of them.
Result<bool, std::string> parse_number_test(const std::string& word, PacketFilter& filter) {
  const std::size_t at = word.find_first_of("=<>");
  const std::string name = word.substr(0, at);
  NumberTest* test = name == "psn"    ? &filter.psn
                     : name == "len"  ? &filter.length
                     : name == "rkey" ? &filter.rkey
                                      : nullptr;
  if (test == nullptr || at == std::string::npos) return false;
  const std::string value = word.substr(at + 1);
  char* end = nullptr;
  test->number = std::strtoull(value.c_str(), &end, 0);
  test->how = word[at];
  if (value.empty() || *end != '\0') return Failure{"'" + value + "' is no number for " + name};
  return true;
}

}  // namespace

bool says_no(const wire::Dissection& packet) {
  if (packet.cm && std::holds_alternative<wire::CmRej>(packet.cm->message)) return true;
  if (!packet.transport || !wire::shape_of(packet.transport->headers.bth.opcode).aeth) return false;
  return packet.transport->headers.aeth.is_nak() || packet.transport->headers.aeth.is_rnr_nak();
}

bool PacketFilter::matches(const wire::Dissection& packet, const wire::CapturedPacket& captured,
                           std::optional<wire::Qpn> source) const {
  const bool remarked =
      std::any_of(captured.comments.begin(), captured.comments.end(),
                  [](std::string_view comment) { return !comment.starts_with(wire::kOwnerComment); });
  if (errors && packet.verdict != wire::PacketVerdict::kBad && !says_no(packet) && !remarked) return false;
  if (qp) {
    if (!packet.transport) return false;
    if (packet.transport->headers.bth.destination != *qp && source != qp) return false;
  }
  if (!peer.empty()) {
    if (!packet.frame) return false;
    const PacketEnds ends = ends_of(*packet.frame);
    if (wire::to_text(ends.source) != peer && wire::to_text(ends.destination) != peer) return false;
  }
  if (psn.how != 0 || length.how != 0 || rkey.how != 0) {
    if (!packet.transport) return false;
    const wire::TransportHeaders& headers = packet.transport->headers;
    if (!psn.holds(headers.bth.psn.value) || !length.holds(packet.transport->payload.size())) return false;
    if (rkey.how != 0 && !fits_rkey(headers, rkey)) return false;
  }
  if (!status.empty() && !fits_answer(answer_of(packet), status)) return false;
  return operation.empty() || names_of(packet).find(operation) != std::string::npos;
}

Result<PacketFilter, std::string> parse_filter(std::span<const std::string> words) {
  PacketFilter filter;
  for (const std::string& word : words) {
    const auto compares = parse_number_test(word, filter);
    if (!compares) return Failure{compares.error()};
    if (*compares) continue;
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
    } else if (name == "status" && std::find(kAnswers.begin(), kAnswers.end(), value) != kAnswers.end()) {
      filter.status = value;
    } else if (name == "status") {
      return Failure{"'" + value + "' is no status: there are " + joined(kAnswers, ", ")};
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
