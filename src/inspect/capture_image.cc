#include "inspect/capture_image.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/visible_text.h"
#include "dissection/packet_fields.h"
#include "inspect/finding_text.h"
#include "tools/explain/chinese.h"
#include "wire/address_text.h"

namespace rrdma::tools {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "columns are copied as they lie in memory");

constexpr std::string_view kMagic = "RRDMA-1\n";

class ColumnWriter {
 public:
  template <typename T>
  void add(std::string_view name, std::string_view type, const std::vector<T>& column) {
    description_.push_back(
        {{"name", name}, {"type", type}, {"offset", octets_.size()}, {"count", column.size()}});
    const std::size_t at = octets_.size();
    octets_.resize((at + column.size() * sizeof(T) + 7) & ~std::size_t{7});
    if (!column.empty()) std::memcpy(octets_.data() + at, column.data(), column.size() * sizeof(T));
  }
  [[nodiscard]] const Json& description() const { return description_; }
  [[nodiscard]] const std::string& octets() const { return octets_; }

 private:
  Json description_ = Json::array();
  std::string octets_;
};

ColumnWriter columns_of(const PacketColumns& columns) {
  ColumnWriter writer;
  writer.add("time", "f64", columns.time_ns);
  writer.add("travel", "f32", columns.travel_ns);
  writer.add("connection", "u32", columns.connection);
  writer.add("psn", "u32", columns.psn);
  writer.add("octets", "u32", columns.octets);
  writer.add("partner", "u32", columns.partner);
  writer.add("number", "u32", columns.number);
  writer.add("rkey", "u32", columns.rkey);
  writer.add("marks", "u16", columns.marks);
  writer.add("opcode", "u8", columns.opcode);
  writer.add("syndrome", "u8", columns.syndrome);
  writer.add("cm", "u8", columns.cm_message);
  return writer;
}

Json index_json(std::uint32_t index) { return index == kNoIndex ? Json() : Json(index); }

Json end_json(const ConnectionEnd& end) {
  return {{"address", wire::to_text(end.address)},
          {"qp", index_json(end.qpn)},
          {"owner", end.owner},
          {"packets", end.packets},
          {"octets", end.octets},
          {"messages", end.messages},
          {"repeats", end.repeats},
          {"naks", end.naks},
          {"rnr", end.rnr_naks},
          {"lost", end.lost},
          {"missing", end.missing}};
}

Json connections_json(const Analysis& analysis) {
  Json list = Json::array();
  for (const Connection& connection : analysis.connections) {
    list.push_back({{"transport", wire::transport_name(connection.transport)},
                    {"a", end_json(connection.ends[0])},
                    {"b", end_json(connection.ends[1])},
                    {"mtu", connection.mtu},
                    {"bad", connection.bad},
                    {"congestion", connection.congestion}});
  }
  return list;
}

Json handshakes_json(const Analysis& analysis) {
  Json list = Json::array();
  for (const Handshake& handshake : analysis.handshakes) {
    list.push_back({{"a", wire::to_text(handshake.addresses[0])},
                    {"b", wire::to_text(handshake.addresses[1])},
                    {"qps", {index_json(handshake.qpns[0]), index_json(handshake.qpns[1])}},
                    {"connection", index_json(handshake.connection)},
                    {"packets", handshake.packets}});
  }
  return list;
}

Json both_languages(const CaptureExplanation& explanation) {
  if (!explanation.facts) return {explanation.text, explanation.text};
  const std::string_view call = std::string_view(explanation.text).substr(0, explanation.text.find(": "));
  return {explanation.text, std::string(call) + ": " + failure_in_chinese(*explanation.facts)};
}

Json findings_json(const Analysis& analysis) {
  Json list = Json::array();
  for (const CaptureFinding& finding : analysis.findings) {
    Json json = finding_json(finding);
    json["connection"] = index_json(finding.connection);
    json["count"] = finding.count;
    json["packets"] = finding.packets;
    for (const std::uint32_t at : finding.explained) {
      json["exact"].push_back(both_languages(analysis.explanations[at]));
    }
    list.push_back(std::move(json));
  }
  return list;
}

// Rows of numbers: lost packet, repairing packet, what made the sender repeat it, messages that waited.
Json repairs_json(const Analysis& analysis) {
  Json list = Json::array();
  for (const Repair& repair : analysis.repairs) {
    list.push_back(
        {repair.lost, index_json(repair.repair), static_cast<unsigned>(repair.by), repair.delayed});
  }
  return list;
}

Json rpc_json(const Analysis& analysis) {
  Json list = Json::array();
  for (const RpcCall& call : analysis.rpc_calls) {
    list.push_back({{"connection", call.connection},
                    {"call", call.call},
                    {"method", call.method},
                    {"status", call.status},
                    {"asked", call.asked},
                    {"answered", index_json(call.answered)},
                    {"octets", {call.octets_asked, call.octets_answered}},
                    {"items", call.items}});
  }
  return list;
}

Json header_json(const Analysis& analysis) {
  Json files = Json::array();
  for (const CaptureFileNote& file : analysis.files) {
    files.push_back({{"name", file.name},
                     {"packets", file.packets},
                     {"foreign", file.foreign},
                     {"left_out", file.left_out},
                     {"offset_ns", file.offset_ns},
                     {"fault", file.fault}});
  }
  Json opcodes = Json::array();
  for (unsigned i = 0; i < 256; ++i)
    opcodes.push_back(wire::opcode_name(wire::Opcode(static_cast<std::uint8_t>(i))));
  Json messages = Json::object();
  for (unsigned i = 0x10; i <= 0x1a; ++i)
    messages[std::to_string(i)] = wire::cm_message_name(static_cast<wire::CmAttribute>(i));
  Json remarks = Json::object();
  for (const auto& [packet, remark] : analysis.remarks) remarks[std::to_string(packet)] = remark;
  Json events = Json::array();
  for (const CaptureEvent& event : analysis.events)
    events.push_back({{"time", event.time_ns - analysis.first_ns}, {"text", event.text}});
  return {{"files", files},
          {"first_ns", std::to_string(analysis.first_ns)},
          {"packets", analysis.columns.size()},
          {"truncated", analysis.truncated},
          {"opcodes", opcodes},
          {"cm_messages", messages},
          {"remarks", remarks},
          {"events", events},
          {"connections", connections_json(analysis)},
          {"handshakes", handshakes_json(analysis)},
          {"repairs", repairs_json(analysis)},
          {"rpc", rpc_json(analysis)},
          {"findings", findings_json(analysis)}};
}

// The fields of packets are written as text at once: a report has those of thousands of packets.
void append_text(std::string& to, std::string_view text) {
  to += '"';
  while (!text.empty()) {
    const std::size_t size = visible_octets(text);
    if (size == 0) {
      to += "\\ufffd";
    } else {
      if (text.front() == '"' || text.front() == '\\') to += '\\';
      to += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  to += '"';
}

void append_fields(std::string& to, const std::vector<wire::Field>& fields, StringTable& strings) {
  char before = '[';
  for (const wire::Field& field : fields) {
    to += std::exchange(before, ',');
    to += '[' + std::to_string(strings.number_of(field.label)) + ',';
    append_text(to, field.text);
    to += ',' + std::to_string(strings.number_of(field.meaning)) + ',' +
          std::to_string(strings.number_of(field.key));
    if (!field.children.empty()) append_fields(to += ',', field.children, strings);
    to += ']';
  }
  to += before == '[' ? "[]" : "]";
}

}  // namespace

std::uint32_t StringTable::number_of(std::string_view text) {
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(list_.size());
  list_.emplace_back(text);
  numbers_.emplace(text, number);
  return number;
}

std::string capture_image(const Analysis& analysis) {
  const ColumnWriter columns = columns_of(analysis.columns);
  Json header = header_json(analysis);
  header["columns"] = columns.description();
  const std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string image(kMagic);
  for (unsigned shift = 0; shift < 32; shift += 8) image += static_cast<char>(text.size() >> shift & 0xff);
  image.reserve(image.size() + text.size() + columns.octets().size() + 8);
  image += text;
  image.resize((image.size() + 7) & ~std::size_t{7});
  return image += columns.octets();
}

std::string packet_details(const Analysis& analysis, std::uint32_t index, StringTable& strings) {
  const CapturedOctets& where = analysis.where[index];
  wire::CapturedPacket captured;
  captured.octets = Octets(where.data, where.captured);
  captured.original_octets = where.original;
  captured.link = where.link;
  const wire::Dissection packet = wire::dissect(captured);
  std::string json = "{\"index\":" + std::to_string(index) + ",\"verdict\":";
  append_text(json, wire::verdict_name(packet.verdict));
  append_text(json += ",\"reason\":", packet.reason);
  append_fields(json += ",\"fields\":", wire::packet_fields(packet).children, strings);
  if (packet.transport && packet.verdict != wire::PacketVerdict::kCut) {
    constexpr std::size_t kShownOctets = 256;
    json += ",\"payload\":\"";
    for (const std::uint8_t octet :
         packet.transport->payload.first(std::min(packet.transport->payload.size(), kShownOctets))) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      json += kDigits[octet >> 4];
      json += kDigits[octet & 15];
    }
    json += '"';
  }
  return json += '}';
}

}  // namespace rrdma::tools
