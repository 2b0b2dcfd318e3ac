// The responder for reliable QPs: it executes the expected request, and then early requests that waited
// behind it. It answers duplicates from the response cache. It names a gap once, as the specification
// demands.
#include <algorithm>

#include "transport/responder.h"

namespace rrdma::transport {

using wire::Kind;
using wire::TransportHeaders;
using wire::TransportPacket;

void Responder::handle_reliable(const TransportPacket& packet) {
  packet_ = &packet;
  const std::int32_t distance = packet.headers.bth.psn.since(resp_.expected);
  if (distance > 0) return resp_.early.enabled() ? keep_early(packet) : out_of_sequence();
  if (distance < 0) return handle_duplicate(packet);
  resp_.nak_sent = false;
  if (!take_in_order(packet) || !resp_.early.enabled()) return;
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
  switch (verdict.kind()) {
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

void Responder::handle_duplicate(const TransportPacket& packet) {
  ++qp_.counters->duplicates;
  const TransportHeaders& headers = packet.headers;
  switch (wire::shape_of(headers.bth.opcode).kind) {
    case Kind::kReadRequest: return replay_read(headers);
    case Kind::kAtomic:
    case Kind::kFlush:
    case Kind::kAtomicWrite: {
      Response* response = qp_.responses.find(headers.bth.psn);
      if (response == nullptr || response->first_psn != headers.bth.psn) return;  // IBTA: too old, drop
      if (response->kind != wire::shape_of(headers.bth.opcode).kind) return;
      ++qp_.counters->atomic_replays;
      qp_.responses.mark_replay(*response);
      core_.schedule(qp_);
      return;
    }
    default:
      // SEND and WRITE: repeat the acknowledgement of our position, but not beyond a READ or ATOMIC, which
      // its own response acknowledges. Linux rxe takes an ACK with the PSN of an ATOMIC as its answer and
      // completes it without the value. A pending NAK reports our position as well.
      if (resp_.answer_due && resp_.answer_syndrome != wire::kSyndromeAckNoCredits) return;
      const wire::Psn psn = qp_.responses.last_before_next(headers.bth.psn, resp_.expected - 1);
      if (resp_.answer_due && psn.before(resp_.answer_psn)) return;
      answer(wire::kSyndromeAckNoCredits, psn);
  }
}

// A duplicate READ requests the rest of an earlier one, or all of it.
void Responder::replay_read(const TransportHeaders& headers) {
  Response* response = qp_.responses.find(headers.bth.psn);
  if (response == nullptr || response->kind != Kind::kReadRequest) return;
  const auto skipped = static_cast<std::uint32_t>(headers.bth.psn.since(response->first_psn));
  const std::uint64_t offset = std::uint64_t{skipped} * qp_.mtu;
  const wire::Reth& reth = headers.reth;
  if (reth.rkey != response->rkey || reth.address != response->address + offset) return;
  if (offset + reth.length > response->length) return;
  ++qp_.counters->read_replays;
  const ReadPart part{static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset + reth.length)};
  // Keep what is still to be sent: the peer may request single packets.
  if (response->pending && !core_.config.strict) {
    response->parts.add(part);
  } else {
    response->parts.set(part);
  }
  response->sending = false;
  qp_.responses.mark_replay(*response);
  core_.schedule(qp_);
}

}  // namespace rrdma::transport
