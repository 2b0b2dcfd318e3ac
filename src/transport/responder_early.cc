// The responder's in-order execution: it executes the expected request, and then early requests that waited behind
// it. For an RRDMA peer it keeps packets ahead of a gap and reports them in a bitmap. For other peers it drops them
// and names the gap once, as the specification demands.
#include "transport/requester.h"
#include "transport/responder.h"

namespace rrdma::transport {

using wire::TransportPacket;

void Responder::handle_reliable(const TransportPacket& packet) {
  packet_ = &packet;
  const std::int32_t distance = packet.headers.bth.psn.since(resp_.expected);
  if (distance > 0) return resp_.early.enabled() ? keep_early(packet) : out_of_sequence();
  if (distance < 0) return handle_duplicate(packet);
  resp_.nak_sent = false;
  if (!take_in_order(packet)) return;
  ReorderBuffer::Found early;
  while (resp_.early.find(resp_.expected, early)) {
    placed_ = early.placed;
    if (!take_in_order(early.packet)) return;
  }
}

// False if the packet was not accepted: then nothing behind it may be executed either.
bool Responder::take_in_order(const TransportPacket& packet) {
  packet_ = &packet;
  const wire::Psn before = resp_.expected;
  const Verdict verdict = execute(packet);
  switch (verdict.kind) {
    case Verdict::Kind::kAccept:
      // A pending NAK asks for the packet that has just arrived.
      if (resp_.answer_due && resp_.answer_syndrome != wire::kSyndromeAckNoCredits) resp_.answer_due = false;
      // READs and ATOMICs are answered by their responses; an ACK waits behind those.
      if (packet.headers.bth.ack_request && wire::shape_of(packet.headers.bth.opcode).acknowledged_by_ack()) {
        answer(wire::kSyndromeAckNoCredits, resp_.expected - 1);
      }
      resp_.early.release_until(before, resp_.expected);
      return true;
    case Verdict::Kind::kNotReady:
      ++qp_.counters->rnr_naks_sent;
      resp_.nak_sent = true;  // stay silent about the packets behind it until the request is repeated
      answer(static_cast<std::uint8_t>(wire::kSyndromeRnrBase | (qp_.attributes.min_rnr_timer & 0x1f)),
             resp_.expected);
      return false;
    case Verdict::Kind::kEnd: end_after(packet, verdict); return false;
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

// Reports a gap when it opens and when the peer asks, not with every packet behind it.
void Responder::keep_early(const TransportPacket& packet) {
  ++qp_.counters->out_of_order;
  if (packet.payload.size() > qp_.mtu) return out_of_sequence();  // trains do not fit the buffer
  const bool read = wire::shape_of(packet.headers.bth.opcode).kind == wire::Kind::kReadRequest;
  const std::uint32_t psns = read ? qp_.packets_of(packet.headers.reth.length) : 1;
  const bool first = resp_.early.empty();
  const auto verdict = resp_.early.keep(packet, resp_.expected, psns, place_early(packet));
  using Kept = ReorderBuffer::Verdict;
  if (verdict == Kept::kKept || verdict == Kept::kKeptBeyondGap) ++qp_.counters->kept_early;
  if (verdict == Kept::kHadIt) ++qp_.counters->duplicates;
  if (resp_.nak_sent) return;  // the peer waits to repeat the request that found no receive request
  if (first || verdict == Kept::kKeptBeyondGap || packet.headers.bth.ack_request)
    answer(wire::kSyndromeSequenceNak, resp_.expected);
}

// Places the payload of MIDDLE packets of the message in progress at once: its first packet was accepted, and the
// last byte is not among them. Packets behind this message wait until everything before them is executed.
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
  if (!resp_.early.in_same_message(psn, resp_.expected) || offset + length > resp_.receive_length)
    return false;
  return objects::scatter(core_.memory, qp_.receive_pd(), {resp_.receive_list.get(), resp_.receive.sge_count},
                          static_cast<std::uint32_t>(offset), packet.payload, false) == objects::Cause::kNone;
}

// Reports our position and the packets that are held beyond it.
SendVerdict Responder::send_arrivals(objects::FrameSink& sink) {
  objects::Frame* frame = sink.reserve(qp_.path);
  if (frame == nullptr) return SendVerdict::kNoRoom;
  frame->clear();
  const Octets bits = resp_.early.bitmap(resp_.expected);
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

// Answers about sequence become arrival maps while packets are kept. A failed QP keeps nothing any more, and an empty
// map would revoke packets that an earlier map named.
bool Responder::tells_arrivals() const {
  if (!resp_.early.enabled() || qp_.state == QpState::kError) return false;
  if (resp_.answer_syndrome == wire::kSyndromeSequenceNak) return true;
  return resp_.answer_syndrome == wire::kSyndromeAckNoCredits && !resp_.early.empty();
}

}  // namespace rrdma::transport
