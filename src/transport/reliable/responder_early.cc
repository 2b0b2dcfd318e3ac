// The responder's packets ahead of a gap. For an RRDMA peer it keeps them and reports them in a bitmap.
#include "transport/responder.h"

namespace rrdma::transport {

using wire::TransportPacket;

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

// Places the payload of MIDDLE packets of the message in progress at once: its first packet was accepted, and
// the last byte is not among them. Packets behind this message wait until everything before them is executed.
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
    return access.ok() && objects::place(access, packet.payload, false, core_.staging, {.qpn = qp_.qpn});
  }
  if (!resp_.early.in_same_message(psn, resp_.expected) || offset + length > resp_.receive_length)
    return false;
  return objects::scatter(core_.memory, qp_.receive_pd(), {resp_.receive_list.get(), resp_.receive.sge_count},
                          static_cast<std::uint32_t>(offset), packet.payload, false, core_.staging,
                          {.qpn = qp_.qpn}) == objects::Cause::kNone;
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

// Answers about sequence become arrival maps while packets are kept. A failed QP keeps nothing any more, and
// an empty map would revoke packets that an earlier map named.
bool Responder::tells_arrivals() const {
  if (!resp_.early.enabled() || qp_.state == QpState::kError) return false;
  if (resp_.answer_syndrome == wire::kSyndromeSequenceNak) return true;
  return resp_.answer_syndrome == wire::kSyndromeAckNoCredits && !resp_.early.empty();
}

}  // namespace rrdma::transport
