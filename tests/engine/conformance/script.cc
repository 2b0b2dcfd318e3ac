#include "script.h"

#include <charconv>
#include <sstream>

#include "base/assert.h"
#include "sim/pattern.h"
#include "wire/opcode.h"
#include "wire/transport_packet.h"

namespace rrdma::conformance {

using transport::QpState;
using transport::QpType;

namespace {

wire::Gid gid_of(std::uint8_t host) { return wire::gid_of_ipv4({10, 0, 0, host}); }

wire::Transport transport_of(QpType type) {
  switch (type) {
    case QpType::kUc: return wire::Transport::kUnreliableConnection;
    case QpType::kUd: return wire::Transport::kUnreliableDatagram;
    default: return wire::Transport::kReliableConnection;
  }
}

// The opcode's name without the transport prefix.
std::string_view short_name(wire::Opcode opcode) {
  std::string_view name = wire::opcode_name(opcode);
  const auto blank = name.find(' ');
  return opcode == wire::kCongestionNotification ? name : name.substr(blank + 1);
}

std::uint64_t number(const std::string& text) {
  std::uint64_t value = 0;
  const bool hex = text.starts_with("0x");
  const char* begin = text.data() + (hex ? 2 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value, hex ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size()) ADD_FAILURE() << "no number: " << text;
  return value;
}

std::string hex(std::uint64_t value) {
  std::ostringstream text;
  text << "0x" << std::hex << value;
  return text.str();
}

// "nak(2)" with the prefix "nak(" gives 2.
bool in_brackets(const std::string& word, std::string_view prefix, std::uint64_t& value) {
  if (!word.starts_with(prefix) || !word.ends_with(")")) return false;
  value = number(word.substr(prefix.size(), word.size() - prefix.size() - 1));
  return true;
}

std::string text_of(const wire::TransportPacket& packet) {
  const wire::TransportHeaders& h = packet.headers;
  const wire::OpcodeShape& shape = wire::shape_of(h.bth.opcode);
  std::string text(short_name(h.bth.opcode));
  text += " psn " + std::to_string(h.bth.psn.value);
  if (h.bth.ack_request) text += " a";
  if (h.bth.solicited) text += " s";
  if (!packet.payload.empty()) text += " +" + std::to_string(packet.payload.size());
  if (shape.aeth) {
    const std::string code = std::to_string(h.aeth.code());
    text += h.aeth.is_ack() ? " ack" : h.aeth.is_rnr_nak() ? " rnr(" + code + ")" : " nak(" + code + ")";
    text += " msn " + std::to_string(h.aeth.msn);
  }
  if (shape.reth) text += " va " + hex(h.reth.address) + " dma " + std::to_string(h.reth.length);
  if (shape.atomic_eth)
    text += " va " + hex(h.atomic.address) + " swap " + hex(h.atomic.swap_or_add) + " compare " +
            hex(h.atomic.compare);
  if (shape.atomic_ack_eth) text += " original " + hex(h.atomic_ack.original);
  if (shape.immediate) text += " imm " + hex(h.immediate.raw);
  if (shape.invalidate) text += " inv";
  return text;
}

std::string_view event_name(transport::QpEvent event) {
  using transport::QpEvent;
  switch (event) {
    case QpEvent::kFatal: return "fatal";
    case QpEvent::kAccessError: return "access error";
    case QpEvent::kRequestError: return "request error";
    case QpEvent::kCommunicationEstablished: return "communication established";
    case QpEvent::kSendQueueDrained: return "send queue drained";
    case QpEvent::kLastReceiveReached: return "last receive reached";
  }
  return "unknown";
}

}  // namespace

Script::Script(const ScriptOptions& options)
    : options_(options), memory_(kMemoryOctets), table_(7), queue_(256, nullptr) {
  using namespace objects;
  const auto enroll = [this](ProtectionDomain& pd, std::uint32_t access) {
    auto region = table_.register_region(
        {.pd = &pd, .host = memory_.data(), .length = memory_.size(), .address = kAddress, .access = access});
    RRDMA_ASSERT(region.ok());
    return *region;
  };
  const std::uint32_t all =
      kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal | kWindowBind;
  good_ = enroll(pd_, all);
  read_only_ = enroll(pd_, kRemoteRead);
  foreign_ = enroll(other_pd_, all);
  sim::fill_pattern(memory_, 1, 0);
  transport::EventSink& events = *this;
  engine_ = std::make_unique<transport::Engine>(options.engine, table_, events);
  transport::QpInit init;
  init.type = options.type;
  init.pd = &pd_;
  init.send_cq = init.receive_cq = &queue_;
  init.send_entries = init.receive_entries = 64;
  init.send_sges = init.receive_sges = 2;
  init.inline_octets = 64;
  init.signal_all = true;
  qp_ = &engine_->create_qp(init, wire::Qpn(kOwnQpn));

  using namespace transport;
  QpAttributes attributes;
  attributes.access_flags = options.access;
  attributes.qkey = wire::QKey{0x1234};
  attributes.path.local = gid_of(1);
  attributes.path.remote = gid_of(2);
  attributes.path.features = options.peer_features;
  attributes.path_mtu = options.mtu_code;
  attributes.destination = wire::Qpn(kPeerQpn);
  attributes.receive_psn = wire::Psn(options.receive_psn);
  attributes.send_psn = wire::Psn(options.send_psn);
  attributes.max_destination_reads = options.max_destination_reads;
  attributes.max_reads = options.max_reads;
  attributes.min_rnr_timer = options.min_rnr_timer;
  attributes.timeout = options.timeout;
  attributes.retry_count = options.retry_count;
  attributes.rnr_retry = options.rnr_retry;
  const bool ud = options.type == QpType::kUd;
  const bool rc = options.type == QpType::kRc;
  const auto go = [&](QpState state, std::uint32_t mask) {
    attributes.state = state;
    RRDMA_ASSERT(engine_->modify_qp(*qp_, attributes, kAttrState | mask, now).ok());
  };
  go(QpState::kInit, kAttrPKeyIndex | kAttrPort | (ud ? kAttrQKey : kAttrAccessFlags));
  go(QpState::kReadyToReceive, (ud ? 0u : kAttrPath | kAttrPathMtu | kAttrDestinationQpn | kAttrReceivePsn) |
                                   (rc ? kAttrMaxDestinationReads | kAttrMinRnrTimer : 0u));
  go(QpState::kReadyToSend,
     kAttrSendPsn | (rc ? kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxReads : 0u));
  handle_.pd = &pd_;
  handle_.path = attributes.path;
}

Script::~Script() { engine_.reset(); }

void Script::play(std::string_view lines) {
  while (!lines.empty()) {
    const auto end = lines.find('\n');
    std::string_view line = lines.substr(0, end);
    lines = end == std::string_view::npos ? std::string_view() : lines.substr(end + 1);
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    while (!line.empty() && line.back() == ' ') line.remove_suffix(1);
    if (!line.empty() && line.front() != '#') act(line);
  }
  line_ = "(end of script)";
  expect_silence();
}

void Script::act(std::string_view line) {
  line_ = std::string(line);
  const std::string rest = line.size() > 2 ? std::string(line.substr(2)) : std::string();
  if (line.front() == '<') return expect(sent_, rest, "sent");
  if (line.front() == '=') return expect(completions_, rest, "completed");
  if (line.front() == '!') return expect(events_, rest, "told");
  expect_silence();
  Words words;
  std::istringstream stream{std::string(line)};
  for (std::string word; stream >> word;) words.push_back(word);
  if (words[0] == ">") {
    packet_in(words);
  } else if (words[0] == "post") {
    post(words);
  } else if (words[0] == "recv") {
    receive(words);
  } else if (words[0] == "@") {
    const bool us = words[1].ends_with("us");
    const std::uint64_t time = number(words[1].substr(0, words[1].size() - 2));
    now = now + (us ? microseconds(static_cast<std::int64_t>(time))
                    : milliseconds(static_cast<std::int64_t>(time)));
    engine_->handle_timers(now);
    go_on();
  } else {
    ADD_FAILURE() << "no such act: " << line_;
  }
}

// Transmits, and collects the results.
void Script::go_on() {
  engine_->transmit(*this, now);
  engine_->flushed(now);
  objects::Completion completion;
  while (queue_.poll({&completion, 1}) != 0) {
    std::string text =
        std::to_string(completion.wr_id) + " " + std::string(objects::describe(completion.status));
    if (completion.status == objects::Status::kSuccess) text += " " + std::to_string(completion.byte_length);
    if ((completion.flags & objects::kWithImmediate) != 0) text += " imm " + hex(completion.immediate_or_key);
    if (completion.solicited) text += " s";
    completions_.push_back(text);
  }
}

void Script::expect(std::deque<std::string>& from, const std::string& wanted, const char* what) {
  if (from.empty()) {
    ADD_FAILURE() << "'" << line_ << "': nothing was " << what;
    return;
  }
  EXPECT_EQ(from.front(), wanted) << "'" << line_ << "'";
  from.pop_front();
}

void Script::expect_silence() {
  for (const auto& text : sent_)
    ADD_FAILURE() << "before '" << line_ << "': sent '" << text << "', and nobody asked";
  for (const auto& text : completions_)
    ADD_FAILURE() << "before '" << line_ << "': completed '" << text << "', and nobody asked";
  for (const auto& text : events_)
    ADD_FAILURE() << "before '" << line_ << "': told '" << text << "', and nobody asked";
  sent_.clear();
  completions_.clear();
  events_.clear();
}

std::uint32_t Script::key_of(const std::string& name) const {
  if (name == "good") return good_->key;
  if (name == "readonly") return read_only_->key;
  if (name == "foreign") return foreign_->key;
  if (name == "bad") return good_->key ^ 0x00770000;
  return static_cast<std::uint32_t>(number(name));
}

void Script::packet_in(const Words& words) {
  wire::TransportPacket packet;
  wire::TransportHeaders& h = packet.headers;
  h.bth.destination = wire::Qpn(kOwnQpn);
  std::string name;
  std::size_t i = 1;
  for (; i < words.size() && words[i] != "psn"; ++i) name += (name.empty() ? "" : " ") + words[i];
  bool known = false;
  for (unsigned code = 0; code < 256 && !known; ++code) {
    const wire::Opcode opcode(static_cast<std::uint8_t>(code));
    const bool ours =
        opcode == wire::kCongestionNotification || opcode.transport() == transport_of(options_.type);
    if (!ours || !wire::shape_of(opcode).known() || short_name(opcode) != name) continue;
    h.bth.opcode = opcode;
    known = true;
  }
  if (!known) {
    ADD_FAILURE() << "no such opcode: " << line_;
    return;
  }
  h.reth = {.address = kAddress, .rkey = {good_->key}};
  h.atomic = {.address = kAddress, .rkey = {good_->key}};
  h.deth = {.qkey = {0x1234}, .source = wire::Qpn(kPeerQpn)};
  objects::PacketOrigin origin{.source = gid_of(2), .destination = gid_of(1)};
  std::vector<std::uint8_t> payload;
  bool dma = false;
  for (; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto value = [&] { return ++i < words.size() ? number(words[i]) : 0; };
    std::uint64_t code = 0;
    if (word == "psn")
      h.bth.psn = wire::Psn(static_cast<std::uint32_t>(value()));
    else if (word == "a")
      h.bth.ack_request = true;
    else if (word == "s")
      h.bth.solicited = true;
    else if (word == "mig")
      h.bth.migration = true;
    else if (word == "ecn")
      origin.ecn_marked = true;
    else if (word == "ack")
      h.aeth.syndrome = wire::kSyndromeAckNoCredits;
    else if (in_brackets(word, "nak(", code))
      h.aeth.syndrome = static_cast<std::uint8_t>(wire::kSyndromeNakBase | code);
    else if (in_brackets(word, "rnr(", code))
      h.aeth.syndrome = static_cast<std::uint8_t>(wire::kSyndromeRnrBase | code);
    else if (word == "msn")
      h.aeth.msn = static_cast<std::uint32_t>(value());
    else if (word == "va")
      h.reth.address = h.atomic.address = value();
    else if (word == "dma")
      h.reth.length = static_cast<std::uint32_t>(value()), dma = true;
    else if (word == "key")
      h.reth.rkey.value = h.atomic.rkey.value = h.invalidate.value = key_of(words[++i]);
    else if (word == "swap")
      h.atomic.swap_or_add = value();
    else if (word == "compare")
      h.atomic.compare = value();
    else if (word == "original")
      h.atomic_ack.original = value();
    else if (word == "imm")
      h.immediate.raw = static_cast<std::uint32_t>(value());
    else if (word == "qkey")
      h.deth.qkey.value = static_cast<std::uint32_t>(value());
    else if (word == "pkey")
      h.bth.pkey = static_cast<std::uint16_t>(value());
    else if (word == "qpn")
      h.bth.destination = wire::Qpn(static_cast<std::uint32_t>(value()));
    else if (word == "from")
      origin.source = gid_of(static_cast<std::uint8_t>(value()));
    else if (word == "to")
      origin.destination = gid_of(static_cast<std::uint8_t>(value()));
    else if (word == "party")
      origin.party = static_cast<std::uint32_t>(value());
    else if (word == "port")
      origin.source_port = static_cast<std::uint16_t>(value());
    else if (word == "feth")
      h.feth.raw = static_cast<std::uint32_t>(value());
    else if (word.starts_with("+"))
      payload.resize(number(word.substr(1)));
    else
      ADD_FAILURE() << "no such word '" << word << "' in " << line_;
  }
  if (!dma && wire::shape_of(h.bth.opcode).kind == wire::Kind::kWrite)
    h.reth.length = static_cast<std::uint32_t>(payload.size());
  if (wire::shape_of(h.bth.opcode).kind == wire::Kind::kAtomicWrite && !dma) h.reth.length = 8;
  sim::fill_pattern(payload, h.bth.psn.value, 0);
  packet.payload = payload;
  const std::array<std::uint8_t, 40> grh{};
  origin.grh = grh.data();
  engine_->handle_packet(packet, origin, now);
  go_on();
}

void Script::post(const Words& words) {
  using objects::SendOpcode;
  static constexpr std::pair<std::string_view, SendOpcode> kNames[] = {
      {"send", SendOpcode::kSend},     {"send_imm", SendOpcode::kSendImmediate},
      {"write", SendOpcode::kWrite},   {"write_imm", SendOpcode::kWriteImmediate},
      {"read", SendOpcode::kRead},     {"cas", SendOpcode::kCompareSwap},
      {"fadd", SendOpcode::kFetchAdd}, {"atomic_write", SendOpcode::kAtomicWrite},
      {"flush", SendOpcode::kFlush}};
  objects::SendEntry entry;
  for (const auto& [name, opcode] : kNames) {
    if (words[1] == name) entry.opcode = opcode;
  }
  entry.wr_id = number(words[2]);
  entry.rkey.value = 0x1111;
  entry.remote_address = 0x5000;
  const std::uint64_t length = words.size() > 3 ? number(words[3]) : 0;
  for (std::size_t i = 4; i < words.size(); ++i) {
    if (words[i] == "fence") entry.flags |= objects::kSendFence;
    if (words[i] == "s") entry.flags |= objects::kSendSolicited;
    if (words[i] == "imm") entry.immediate_or_key = static_cast<std::uint32_t>(number(words[++i]));
  }
  if (entry.opcode == SendOpcode::kFlush) {
    entry.flush.placement = 1;
    entry.length = static_cast<std::uint32_t>(length);
  } else if (entry.opcode == SendOpcode::kCompareSwap || entry.opcode == SendOpcode::kFetchAdd) {
    entry.atomic.compare_add = 5;
    entry.atomic.swap = 6;
  } else if (options_.type == QpType::kUd) {
    entry.datagram.handle = &handle_;
    entry.datagram.qkey = 0x1234;
    entry.datagram.remote_qpn = kPeerQpn;
  }
  const objects::Sge sge{kAddress, static_cast<std::uint32_t>(length), wire::LKey{good_->key}};
  const bool listed = entry.opcode != SendOpcode::kFlush;
  const auto error = engine_->post_send(*qp_, {entry, {&sge, listed ? 1u : 0u}}, now);
  EXPECT_EQ(error, transport::PostError::kNone) << line_ << ": " << transport::describe(error);
  go_on();
}

void Script::receive(const Words& words) {
  const objects::Sge sge{kAddress + 0x8000, static_cast<std::uint32_t>(number(words[2])),
                         wire::LKey{good_->key}};
  EXPECT_EQ(engine_->post_receive(*qp_, number(words[1]), {&sge, 1}, now), transport::PostError::kNone)
      << line_;
}

void Script::on_qp_event(transport::QueuePair&, transport::QpEvent event) {
  events_.emplace_back(event_name(event));
}

objects::Frame* Script::reserve(const objects::Path& path) {
  if (!link_has_room) return nullptr;
  frame_.clear();
  frame_.path = &path;
  return &frame_;
}

void Script::commit(objects::Frame& frame) {
  std::vector<std::uint8_t> octets(frame.header.begin(), frame.header.begin() + frame.header_octets);
  for (std::size_t i = 0; i < frame.span_count; ++i) {
    octets.insert(octets.end(), frame.spans[i].data, frame.spans[i].data + frame.spans[i].length);
  }
  octets.resize(octets.size() + frame.pad);
  wire::TransportPacket packet;
  const auto error = wire::parse_transport(octets, packet);
  if (error != wire::TransportError::kNone)
    ADD_FAILURE() << "sent octets that are no packet: " << wire::describe(error);
  EXPECT_EQ(packet.headers.bth.pkey, 0xffff);
  EXPECT_EQ(packet.headers.bth.destination, wire::Qpn(kPeerQpn));
  sent_.push_back(text_of(packet));
}

}  // namespace rrdma::conformance
