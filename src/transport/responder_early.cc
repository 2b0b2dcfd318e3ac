// Requests in their order: the expected one is executed, and with it what has come early and waits behind it.
// Towards a peer of our own kind the responder keeps what is ahead of a gap and says so in a bitmap; towards
// anybody else it drops it and names the gap once, as the specification has it.
#include "transport/planted_bug.h"
#include "transport/requester.h"
#include "transport/responder.h"

namespace rrdma::transport {

using wire::TransportPacket;

void Responder::handle_reliable(const TransportPacket& packet) {
  packet_ = &packet;
  const std::int32_t distance = packet.headers.bth.psn.since(resp_.expected);
  if (distance > 0) return resp_.early.enabled() ? keep_early(packet) : out_of_sequence();
  if (distance < 0 && !planted(PlantedBug::kSkipDuplicateCheck)) return handle_duplicate(packet);
  resp_.nak_sent = false;
  if (!take_in_order(packet)) return;
  ReorderBuffer::Found early;
  while (resp_.early.find(resp_.expected, early) ||
         (planted(PlantedBug::kExecuteOverGap) && resp_.early.find(resp_.expected + 1, early))) {
    placed_ = early.placed;
    if (planted(PlantedBug::kExecuteEarlyTwice) && !take_in_order(early.packet)) return;
    if (!take_in_order(early.packet)) return;
  }
}

// False if it was not accepted: then nothing behind it may be executed either.
bool Responder::take_in_order(const TransportPacket& packet) {
  packet_ = &packet;
  const wire::Psn before = resp_.expected;
  const Verdict verdict = execute(packet);
  switch (verdict.kind) {
    case Verdict::Kind::kAccept:
      // A NAK that has not left yet asks for what has just come.
      if (resp_.answer_due && resp_.answer_syndrome != wire::kSyndromeAckNoCredits) resp_.answer_due = false;
      // READs and ATOMICs are answered by their responses; an ACK waits behind those.
      if (packet.headers.bth.ack_request && wire::shape_of(packet.headers.bth.opcode).acknowledged_by_ack()) {
        answer(wire::kSyndromeAckNoCredits, resp_.expected - 1);
      }
      resp_.early.release_until(before, resp_.expected);
      return true;
    case Verdict::Kind::kNotReady:
      ++qp_.counters->rnr_naks_sent;
      if (planted(PlantedBug::kForgetEarly)) resp_.early.clear();
      resp_.nak_sent = true;  // what follows in the window meets silence until the request comes again
      answer(static_cast<std::uint8_t>(wire::kSyndromeRnrBase | (qp_.attributes.min_rnr_timer & 0x1f)),
             resp_.expected);
      return false;
    case Verdict::Kind::kRefuse:
      fail_receive(verdict);
      send_nak(verdict);
      return false;
  }
  return false;
}

void Responder::out_of_sequence() {
  ++qp_.counters->out_of_order;
  if (resp_.nak_sent) return;
  resp_.nak_sent = true;
  ++qp_.counters->sequence_naks_sent;
  answer(wire::kSyndromeSequenceNak, resp_.expected);
}

// A gap is told of when it opens and whenever the peer asks, not with every packet behind it.
void Responder::keep_early(const TransportPacket& packet) {
  ++qp_.counters->out_of_order;
  if (packet.payload.size() > qp_.mtu) return out_of_sequence();  // a train: there is no room for those
  const bool read = wire::shape_of(packet.headers.bth.opcode).kind == wire::Kind::kReadRequest;
  const std::uint32_t psns = read ? qp_.packets_of(packet.headers.reth.length) : 1;
  const bool first = resp_.early.empty();
  const auto verdict = resp_.early.keep(packet, resp_.expected, psns, place_early(packet));
  using Kept = ReorderBuffer::Verdict;
  if (verdict == Kept::kKept || verdict == Kept::kKeptBeyondGap) ++qp_.counters->kept_early;
  if (verdict == Kept::kHadIt) ++qp_.counters->duplicates;
  if (resp_.nak_sent) return;  // it waits to send again what found no receive request
  if (first || verdict == Kept::kKeptBeyondGap || packet.headers.bth.ack_request)
    answer(wire::kSyndromeSequenceNak, resp_.expected);
}

// Octets in the middle of the message in progress go to their place at once: its first packet was accepted, and the
// last octet is not among them. What is behind the message waits until all before it was executed.
bool Responder::place_early(const TransportPacket& packet) {
  const wire::OpcodeShape& shape = wire::shape_of(packet.headers.bth.opcode);
  if (!shape.is_middle() || shape.kind != resp_.message) return false;
  const std::uint64_t length = packet.payload.size();
  const wire::Psn psn = packet.headers.bth.psn;
  if (length != qp_.mtu || resp_.early.holds(psn)) return false;
  const std::uint64_t offset = resp_.offset + static_cast<std::uint64_t>(psn.since(resp_.expected)) * qp_.mtu;
  if (shape.kind == wire::Kind::kWrite) {
    if (offset + length >= resp_.length) return false;
    const objects::AccessVerdict access = core_.memory.check_remote(
        *qp_.pd, qp_.qpn, resp_.rkey, resp_.address + offset, length, objects::kRemoteWrite);
    return access.ok() && objects::place(access.host, packet.payload.data(), length, false);
  }
  const bool same =
      resp_.early.in_same_message(psn, resp_.expected) || planted(PlantedBug::kPlaceOverBoundary);
  if (!same || offset + length > resp_.receive_length) return false;
  return objects::scatter(core_.memory, qp_.receive_pd(), {resp_.receive_list.get(), resp_.receive.sge_count},
                          static_cast<std::uint32_t>(offset), packet.payload, false) == objects::Cause::kNone;
}

// How far we are, and what is here beyond that.
SendVerdict Responder::send_arrivals(objects::FrameSink& sink) {
  objects::Frame* frame = sink.reserve(qp_.path);
  if (frame == nullptr) return SendVerdict::kNoRoom;
  frame->clear();
  const wire::Psn base = planted(PlantedBug::kBitmapOffByOne) ? resp_.expected + 1 : resp_.expected;
  const Octets bits = resp_.early.bitmap(base);
  if (!bits.empty()) frame->add_span(bits.data(), bits.size());
  std::uint8_t* p = frame->header.data();
  wire::emit_bth(
      {.opcode = wire::kArrivalMap, .pkey = qp_.pkey, .destination = qp_.remote, .psn = resp_.expected}, p);
  p += wire::kBthOctets;
  wire::emit_aeth({.syndrome = wire::kSyndromeAckNoCredits, .msn = resp_.msn}, p);
  frame->header_octets = wire::kBthOctets + wire::kAethOctets;
  frame->path = &qp_.path;
  ++qp_.counters->packets_sent;
  ++qp_.counters->arrivals_sent;
  sink.commit(*frame);
  resp_.answer_due = false;
  return SendVerdict::kSent;
}

// An answer about sequence, while something is kept: the peer is told all of it. Who has failed keeps nothing any
// more, and a map that says so would take back what another has named.
bool Responder::tells_arrivals() const {
  if (!resp_.early.enabled() || qp_.state == QpState::kError) return false;
  if (resp_.answer_syndrome == wire::kSyndromeSequenceNak) return true;
  return resp_.answer_syndrome == wire::kSyndromeAckNoCredits && !resp_.early.empty();
}

}  // namespace rrdma::transport
