#include "sim/answer_judge.h"

#include <algorithm>

#include "dissection/printer.h"
#include "wire/roce_packet.h"

namespace rrdma::sim {

using wire::Kind;
using wire::TransportPacket;

namespace {

bool parse(const link::PacketView& view, TransportPacket& packet) {
  const auto frame = wire::parse_frame(view.frame);
  return frame && wire::parse_transport(frame->transport, packet) == wire::TransportError::kNone;
}

bool is_answer(Kind kind) {
  return kind == Kind::kAcknowledge || kind == Kind::kReadResponse || kind == Kind::kAtomicAcknowledge ||
         kind == Kind::kArrivals;
}

}  // namespace

void AnswerJudge::connect(wire::Qpn receiver, wire::Qpn sender, wire::Psn expected, std::uint32_t mtu) {
  talks_[receiver.value] = {.mtu = mtu, .psn = expected};
  receiver_of_[sender.value] = receiver.value;
}

void AnswerJudge::on_sent(const link::PacketView& packet, Instant) {
  TransportPacket parsed;
  if (parse(packet, parsed)) answered(parsed);
}

void AnswerJudge::on_fate(const link::PacketView& packet, link::Fate fate, Instant now) {
  TransportPacket parsed;
  if (fate == link::Fate::kDelivered && parse(packet, parsed)) delivered(parsed, now);
}

void AnswerJudge::delivered(const TransportPacket& packet, Instant now) {
  const std::uint32_t to = packet.headers.bth.destination.value;
  const Kind kind = wire::shape_of(packet.headers.bth.opcode).kind;
  if (!is_answer(kind)) {
    const auto talk = talks_.find(to);
    if (talk != talks_.end()) take_request(talk->second, packet);
    return;
  }
  const auto receiver = receiver_of_.find(to);
  if (receiver == receiver_of_.end()) return;
  const bool gap = kind == Kind::kArrivals || (kind == Kind::kAcknowledge && packet.headers.aeth.is_nak());
  if (gap) talks_[receiver->second].gaps.push_back(now);
}

std::size_t AnswerJudge::gaps_told(wire::Qpn sender, Instant since) const {
  const auto receiver = receiver_of_.find(sender.value);
  if (receiver == receiver_of_.end()) return 0;
  const std::vector<Instant>& gaps = talks_.at(receiver->second).gaps;
  return static_cast<std::size_t>(gaps.end() - std::lower_bound(gaps.begin(), gaps.end(), since));
}

void AnswerJudge::take_request(Conversation& to, const TransportPacket& request) {
  const wire::Bth& bth = request.headers.bth;
  const Kind kind = wire::shape_of(bth.opcode).kind;
  const std::uint32_t octets = kind == Kind::kReadRequest ? request.headers.reth.length : 0;
  const std::uint32_t psns = octets == 0 ? 1 : (octets + to.mtu - 1) / to.mtu;
  const std::int64_t first = to.position(bth.psn);
  for (std::int64_t at = std::max(first, to.front); at < first + psns; ++at) to.beyond.insert(at);
  for (; !to.beyond.empty() && *to.beyond.begin() == to.front; to.beyond.erase(to.beyond.begin())) {
    ++to.front;
    ++to.psn;
  }
}

void AnswerJudge::answered(const TransportPacket& answer) {
  const wire::Bth& bth = answer.headers.bth;
  const Kind kind = wire::shape_of(bth.opcode).kind;
  if (!is_answer(kind)) return;
  const auto receiver = receiver_of_.find(bth.destination.value);
  if (receiver == receiver_of_.end()) return;
  Conversation& talk = talks_[receiver->second];
  if (kind == Kind::kArrivals) return judge_map(talk, answer);
  const std::int64_t named = talk.position(bth.psn);
  const bool refuses = kind == Kind::kAcknowledge && !answer.headers.aeth.is_ack();
  judge_executed(talk, answer, refuses ? named : named + 1);
}

void AnswerJudge::judge_executed(const Conversation& talk, const TransportPacket& answer, std::int64_t end) {
  if (end > talk.front) broken(answer, "acknowledges what was not delivered");
}

void AnswerJudge::judge_map(Conversation& talk, const TransportPacket& map) {
  const std::int64_t expected = talk.position(map.headers.bth.psn);
  judge_executed(talk, map, expected);
  if (expected < talk.expected) broken(map, "expects again what was executed");
  std::set<std::int64_t> named;
  for (std::size_t i = 0; i < map.payload.size() * 8; ++i) {
    if ((map.payload[i / 8] >> (7 - i % 8) & 1) == 0) continue;
    const std::int64_t at = expected + static_cast<std::int64_t>(i);
    if (!talk.has(at)) return broken(map, "names a packet that was not delivered");
    named.insert(named.end(), at);
  }
  for (auto at = talk.named.lower_bound(expected); at != talk.named.end(); ++at) {
    if (named.count(*at) == 0) return broken(map, "does not name any more what an earlier one has named");
  }
  talk.named = std::move(named);
  talk.expected = expected;
}

void AnswerJudge::broken(const TransportPacket& answer, const std::string& promise) {
  report_("an answer " + promise + ": " + wire::transport_line(answer.headers, answer.payload.size()));
}

}  // namespace rrdma::sim
