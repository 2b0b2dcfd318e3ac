#include "transport/responder.h"

#include <algorithm>
#include <atomic>

#include "objects/atomic_call.h"
#include "transport/qp/admission.h"
#include "transport/requester.h"
#include "wire/bth_words.h"
#include "wire/last_answer.h"

namespace rrdma::transport {

using objects::AccessVerdict;
using objects::AtomicCall;
using objects::Cause;
using wire::Kind;
using wire::NakCode;
using wire::OpcodeShape;
using wire::Step;
using wire::TransportHeaders;
using wire::TransportPacket;

void Responder::handle(const TransportPacket& packet) {
  if (!qp_.can_receive() || qp_.type == QpType::kXrcSend) {
    ++qp_.counters->dropped_qp_state;
    return;
  }
  if (qp_.state == QpState::kReadyToReceive && !qp_.established_told) {
    qp_.established_told = true;
    core_.events.on_qp_event(qp_, QpEvent::kCommunicationEstablished);
  }
  if (qp_.reliable()) {
    handle_reliable(packet);
  } else {
    handle_unreliable(packet);
  }
}

Responder::Verdict Responder::execute(const TransportPacket& packet) {
  const OpcodeShape& shape = wire::shape_of(packet.headers.bth.opcode);
  if (const Verdict v = check_opcode(shape); !v.accepts()) return v;
  if (qp_.type == QpType::kXrcReceive && shape.starts_message) {
    if (const Verdict v = select_shared_queue(packet.headers); !v.accepts()) return v;
  }
  if (const Verdict v = check_rights(shape); !v.accepts()) return v;
  if (const Verdict v = check_length(shape, packet.payload.size()); !v.accepts()) return v;
  switch (shape.kind) {
    case Kind::kSend: return execute_send(packet, shape);
    case Kind::kWrite: return execute_write(packet, shape);
    case Kind::kReadRequest: return execute_read(packet.headers);
    case Kind::kAtomic: return execute_atomic(packet.headers);
    case Kind::kFlush: return execute_flush(packet.headers);
    case Kind::kAtomicWrite: return execute_atomic_write(packet);
    default: return refuse(NakCode::kInvalidRequest, Cause::kRequestOpcodeUnexpected);
  }
}

// FIRST and ONLY start a message; MIDDLE and LAST continue one of the same kind.
Responder::Verdict Responder::check_opcode(const OpcodeShape& shape) const {
  const bool in_progress = resp_.message != Kind::kUnknown;
  const bool fits = shape.starts_message ? !in_progress : resp_.message == shape.kind;
  return fits ? Verdict{} : refuse(NakCode::kInvalidRequest, Cause::kRequestOpcodeUnexpected);
}

Responder::Verdict Responder::check_rights(const OpcodeShape& shape) const {
  std::uint32_t need = 0;
  switch (shape.kind) {
    case Kind::kWrite:
    case Kind::kAtomicWrite: need = objects::kRemoteWrite; break;
    case Kind::kReadRequest: need = objects::kRemoteRead; break;
    case Kind::kAtomic: need = objects::kRemoteAtomic; break;
    default: return {};
  }
  return (qp_.access_flags & need) != 0 ? Verdict{}
                                        : refuse(NakCode::kInvalidRequest, Cause::kRequestNotEnabled);
}

Responder::Verdict Responder::check_length(const OpcodeShape& shape, std::size_t length) const {
  bool fits = true;
  switch (shape.payload) {
    case wire::PayloadRule::kFull:
      fits = length != 0 && length % qp_.mtu == 0 && length <= qp_.train_accepted;
      break;
    case wire::PayloadRule::kOneToFull:
    case wire::PayloadRule::kUpToFull: fits = length <= qp_.train_accepted; break;
    default: break;
  }
  return fits ? Verdict{} : refuse(NakCode::kInvalidRequest, Cause::kRequestLengthWrong);
}

// XRC: each message names its queue, and with it the protection domain and the CQ.
Responder::Verdict Responder::select_shared_queue(const TransportHeaders& headers) {
  objects::ReceiveQueue* queue = core_.xrc_queue(headers.xrceth.srq);
  if (!reaches(qp_, queue)) return refuse(NakCode::kRemoteOperationalError, Cause::kRequestNotEnabled);
  qp_.incoming = queue;
  qp_.pd = queue->pd;
  qp_.receive_cq = queue->completions;
  return {};
}

Responder::Verdict Responder::take_receive() {
  if (resp_.have_receive) return {};
  if (!qp_.incoming->take(resp_.receive, resp_.receive_list.get())) return {Verdict::Kind::kNotReady};
  resp_.have_receive = true;
  resp_.receive_length = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      objects::total_length({resp_.receive_list.get(), resp_.receive.sge_count}), 0xffffffff));
  return {};
}

Responder::Verdict Responder::execute_send(const TransportPacket& packet, const OpcodeShape& shape) {
  if (shape.starts_message) {
    if (const Verdict v = take_receive(); !v.accepts()) return v;
    resp_.offset = 0;
  }
  const auto length = static_cast<std::uint32_t>(packet.payload.size());
  if (length > resp_.receive_length - resp_.offset) {
    return refuse(NakCode::kInvalidRequest, Cause::kReceiveBufferTooSmall);
  }
  if (!placed_) {
    const Cause cause =
        objects::scatter(core_.memory, qp_.receive_pd(), {resp_.receive_list.get(), resp_.receive.sge_count},
                         resp_.offset, packet.payload, shape.ends_message, core_.staging, {.qpn = qp_.qpn});
    if (cause != Cause::kNone) return refuse(NakCode::kRemoteOperationalError, cause);
  }
  if (shape.invalidate && !core_.memory.invalidate(packet.headers.invalidate, *qp_.pd, qp_.qpn))
    return {Verdict::Kind::kEnd, NakCode::kInvalidRequest, Cause::kRemoteInvalidateRefused};
  return accept_part(packet, shape);
}

Responder::Verdict Responder::execute_write(const TransportPacket& packet, const OpcodeShape& shape) {
  const auto length = static_cast<std::uint32_t>(packet.payload.size());
  // Before the key check: the receive request of an immediate fails with the message.
  if (shape.immediate) {
    if (const Verdict v = take_receive(); !v.accepts()) return v;
  }
  if (shape.starts_message) {
    const wire::Reth& reth = packet.headers.reth;
    if (reth.length > kMessageOctetsMax) return refuse(NakCode::kInvalidRequest, Cause::kRequestLengthWrong);
    if (reth.length != 0) {  // a zero-length WRITE ignores its key
      const AccessVerdict access = core_.memory.check_remote(*qp_.pd, qp_.qpn, reth.rkey, reth.address,
                                                             reth.length, objects::kRemoteWrite);
      if (!access.ok()) return refuse(NakCode::kRemoteAccessError, access.cause);
    }
    resp_.rkey = reth.rkey;
    resp_.address = reth.address;
    resp_.length = reth.length;
    resp_.offset = 0;
  }
  // On this host the initiator may have placed the data itself (docs/adr/0014).
  if (shape.immediate && shape.starts_message && length == 0 && qp_.path.direct) resp_.offset = resp_.length;
  const std::uint32_t remaining = resp_.length - resp_.offset;
  if (shape.ends_message ? length != remaining : length >= remaining) {
    return refuse(NakCode::kInvalidRequest, Cause::kRequestLengthWrong);
  }
  if (length != 0) {
    // Check again for each packet: the region may have been deregistered since the first.
    const AccessVerdict access = core_.memory.check_remote(
        *qp_.pd, qp_.qpn, resp_.rkey, resp_.address + resp_.offset, length, objects::kRemoteWrite);
    if (!access.ok()) return refuse(NakCode::kRemoteAccessError, access.cause);
    // A program may watch for the last byte and end at once.
    if (shape.ends_message)
      write_last_answer(resp_.expected + (qp_.packets_of(length) - 1), (resp_.msn + 1) & wire::kMask24);
    if (!placed_ &&
        !objects::place(access, packet.payload, shape.ends_message, core_.staging, {.qpn = qp_.qpn})) {
      if (shape.ends_message) write_last_answer(resp_.expected - 1, resp_.msn);
      return refuse(NakCode::kRemoteAccessError, Cause::kRemoteMemoryFault);
    }
  }
  return accept_part(packet, shape);
}

Responder::Verdict Responder::accept_part(const TransportPacket& packet, const OpcodeShape& shape) {
  const auto length = static_cast<std::uint32_t>(packet.payload.size());
  resp_.message = shape.kind;
  resp_.offset += length;
  resp_.expected = resp_.expected + qp_.packets_of(length);
  qp_.count(&Counters::octets_received, &QueuePair::octets_received, length);
  if (shape.ends_message) complete_message(packet, shape);
  return {};
}

void Responder::complete_message(const TransportPacket& packet, const OpcodeShape& shape) {
  const TransportHeaders& headers = packet.headers;
  resp_.message = Kind::kUnknown;
  resp_.msn = (resp_.msn + 1) & wire::kMask24;
  qp_.count(&Counters::messages_received, &QueuePair::messages_received);
  write_last_answer(resp_.expected - 1, resp_.msn);
  if (shape.kind == Kind::kWrite && !shape.immediate) return;
  objects::Completion completion{.wr_id = resp_.receive.wr_id,
                                 .opcode = shape.kind == Kind::kWrite
                                               ? objects::CompletionOpcode::kReceiveWriteImmediate
                                               : objects::CompletionOpcode::kReceive,
                                 .solicited = headers.bth.solicited,
                                 .byte_length = resp_.offset,
                                 .qpn = qp_.qpn,
                                 .source_qpn = qp_.remote};
  if (shape.immediate) {
    completion.flags = objects::kWithImmediate;
    completion.immediate_or_key = headers.immediate.raw;
  } else if (shape.invalidate) {
    completion.flags = objects::kWithInvalidate;
    completion.immediate_or_key = headers.invalidate.value;
  }
  resp_.have_receive = false;
  core_.complete_receive(qp_, completion, now_);
}

Response* Responder::new_response(Kind kind, std::uint32_t packets) {
  Response* response = qp_.responses.add();
  if (response == nullptr) return nullptr;
  resp_.msn = (resp_.msn + 1) & wire::kMask24;
  response->kind = kind;
  response->first_psn = resp_.expected;
  response->packet_count = packets;
  response->msn = resp_.msn;
  resp_.expected = resp_.expected + packets;
  // Its response acknowledges everything before it, so a pending plain ACK is no longer needed.
  if (resp_.answer_due && resp_.answer_syndrome == wire::kSyndromeAckNoCredits) resp_.answer_due = false;
  qp_.responses.mark_pending(*response);
  qp_.count(&Counters::messages_received, &QueuePair::messages_received);
  core_.schedule(qp_);
  return response;
}

Responder::Verdict Responder::execute_read(const TransportHeaders& headers) {
  const wire::Reth& reth = headers.reth;
  if (reth.length > kMessageOctetsMax) return refuse(NakCode::kInvalidRequest, Cause::kRequestLengthWrong);
  if (reth.length != 0) {
    const AccessVerdict access = core_.memory.check_remote(*qp_.pd, qp_.qpn, reth.rkey, reth.address,
                                                           reth.length, objects::kRemoteRead);
    if (!access.ok()) return refuse(NakCode::kRemoteAccessError, access.cause);
  }
  Response* response = new_response(Kind::kReadRequest, qp_.packets_of(reth.length));
  if (response == nullptr) return refuse(NakCode::kInvalidRequest, Cause::kTooManyReads);
  response->rkey = reth.rkey;
  response->address = reth.address;
  response->length = reth.length;
  response->parts.set({0, reth.length});
  return {};
}

// ATOMICs, ATOMIC WRITE: their aligned word of eight bytes, if the key covers it and the response has room.
Responder::Verdict Responder::find_word(wire::RKey rkey, std::uint64_t address, std::uint32_t need,
                                        AccessVerdict& word) const {
  if (address % 8 != 0) return refuse(NakCode::kInvalidRequest, Cause::kAtomicMisaligned);
  word = core_.memory.check_remote(*qp_.pd, qp_.qpn, rkey, address, 8, need);
  if (!word.ok()) return refuse(NakCode::kRemoteAccessError, word.cause);
  if (reinterpret_cast<std::uintptr_t>(word.host) % 8 != 0)
    return refuse(NakCode::kInvalidRequest, Cause::kAtomicMisaligned);
  if (!qp_.responses.has_room()) return refuse(NakCode::kInvalidRequest, Cause::kTooManyReads);
  return {};
}

Responder::Verdict Responder::execute_atomic(const TransportHeaders& headers) {
  const wire::AtomicEth& atomic = headers.atomic;
  AccessVerdict word;
  if (const Verdict v = find_word(atomic.rkey, atomic.address, objects::kRemoteAtomic, word); !v.accepts())
    return v;
  AtomicCall call{nullptr, headers.bth.opcode.step() == Step::kCompareSwap, atomic.swap_or_add,
                  atomic.compare, 0};
  if (!objects::run_atomic(core_.memory, word, call))
    return refuse(NakCode::kRemoteAccessError, Cause::kRemoteMemoryFault);
  new_response(Kind::kAtomic, 1)->original = call.original;
  return {};
}

// FLUSH: earlier writes are globally visible once this fence has run. Process memory has no persistent
// placement, so the rights of the region refuse persistence.
Responder::Verdict Responder::execute_flush(const TransportHeaders& headers) {
  const wire::Reth& reth = headers.reth;
  const std::uint8_t placement = headers.feth.placement();
  std::uint32_t need = 0;
  if ((placement & 1) != 0) need |= objects::kFlushGlobal;
  if ((placement & 2) != 0) need |= objects::kFlushPersistent;
  if (need == 0 || headers.feth.selectivity() > 1)
    return refuse(NakCode::kInvalidRequest, Cause::kRequestLengthWrong);
  const std::uint64_t length = headers.feth.selectivity() == 1 ? 0 : reth.length;  // whole region: no range
  const std::uint64_t address =
      headers.feth.selectivity() == 1 ? core_.memory.first_address(reth.rkey) : reth.address;
  const AccessVerdict access = core_.memory.check_remote(*qp_.pd, qp_.qpn, reth.rkey, address, length, need);
  if (!access.ok()) return refuse(NakCode::kRemoteAccessError, access.cause);
  if (!qp_.responses.has_room()) return refuse(NakCode::kInvalidRequest, Cause::kTooManyReads);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  new_response(Kind::kFlush, 1);
  return {};
}

Responder::Verdict Responder::execute_atomic_write(const TransportPacket& packet) {
  const wire::Reth& reth = packet.headers.reth;
  if (reth.length != 8) return refuse(NakCode::kInvalidRequest, Cause::kAtomicMisaligned);
  AccessVerdict word;
  if (const Verdict v = find_word(reth.rkey, reth.address, objects::kRemoteWrite, word); !v.accepts())
    return v;
  if (!objects::place(word, packet.payload.first(8), true, core_.staging, {.qpn = qp_.qpn}))
    return refuse(NakCode::kRemoteAccessError, Cause::kRemoteMemoryFault);
  new_response(Kind::kAtomicWrite, 1);
  return {};
}

void Responder::answer(std::uint8_t syndrome, wire::Psn psn) {
  resp_.answer_due = true;
  resp_.answer_syndrome = syndrome;
  resp_.answer_psn = psn;
  core_.schedule(qp_);
}

void Responder::write_last_answer(wire::Psn last, std::uint32_t msn) {
  if (qp_.last_answer != nullptr) wire::LastAnswer::write(*qp_.last_answer, last, msn, now_);
}

// IBTA 11.6.2: the status of a receive request whose message was refused.
objects::Status Responder::status_of_receive(const Verdict& verdict) {
  if (verdict.cause() == Cause::kReceiveBufferTooSmall) return objects::Status::kLocalLengthError;
  if (verdict.nak() == NakCode::kRemoteOperationalError) return objects::Status::kLocalProtectionError;
  return verdict.nak() == NakCode::kRemoteAccessError ? objects::Status::kLocalAccessError
                                                      : objects::Status::kRemoteInvalidRequest;
}

// Fails the receive request of the message, if it has one.
void Responder::fail_receive(const Verdict& verdict) {
  if (!resp_.have_receive) return;
  resp_.have_receive = false;
  receive_told_ = true;
  objects::Completion completion{.wr_id = resp_.receive.wr_id,
                                 .status = status_of_receive(verdict),
                                 .opcode = objects::CompletionOpcode::kReceive,
                                 .qpn = qp_.qpn,
                                 .vendor_err = objects::vendor_error(verdict.cause(), resp_.expected)};
  core_.complete_receive(qp_, completion, now_);
}

// The request was refused: send a NAK and move the QP to the error state (IBTA class C).
void Responder::send_nak(const Verdict& verdict) {
  auto& counters = *qp_.counters;
  switch (verdict.nak()) {
    case NakCode::kInvalidRequest: ++counters.invalid_request_naks_sent; break;
    case NakCode::kRemoteAccessError: ++counters.access_naks_sent; break;
    default: ++counters.operational_naks_sent;
  }
  const wire::Psn psn = resp_.expected;
  if (!receive_told_) {
    core_.events.on_request_failed(qp_, refused_request(qp_, packet_, verdict.nak(), verdict.cause(), now_));
  }
  core_.events.on_qp_event(qp_, verdict.nak() == NakCode::kRemoteAccessError ? QpEvent::kAccessError
                                : verdict.nak() == NakCode::kInvalidRequest  ? QpEvent::kRequestError
                                                                             : QpEvent::kFatal);
  resp_.message = Kind::kUnknown;
  core_.fail_qp(qp_, now_);
  answer(static_cast<std::uint8_t>(wire::kSyndromeNakBase | static_cast<std::uint8_t>(verdict.nak())), psn);
}

// IBTA class J: the SEND arrived, and only its invalidation failed. That is this side's error alone: the
// requester gets its ACK and no NAK, the receive request ends in error, and with it this QP. rxe does the
// same (RESPST_ERR_INVALIDATE_RKEY).
void Responder::end_after(const TransportPacket& packet, const Verdict& verdict) {
  fail_receive(verdict);
  resp_.expected = resp_.expected + qp_.packets_of(packet.payload.size());
  resp_.msn = (resp_.msn + 1) & wire::kMask24;
  core_.fail_qp(qp_, now_);
  answer(wire::kSyndromeAckNoCredits, resp_.expected - 1);
}

SendVerdict Responder::send_next(objects::FrameSink& sink) {
  if (Response* response = qp_.responses.first_pending(); response != nullptr)
    return send_response(*response, sink);
  if (resp_.answer_due) return tells_arrivals() ? send_arrivals(sink) : send_answer(sink);
  return SendVerdict::kNothing;
}

void Responder::emit(objects::Frame& frame, objects::FrameSink& sink, Step step, wire::Psn psn,
                     std::uint32_t msn, const std::uint64_t* atomic_original, std::uint8_t syndrome) {
  const wire::Opcode opcode(qp_.transport(), step);
  frame.pad = wire::pad_for(frame.payload_octets);
  std::uint8_t* p = frame.header.data();
  wire::emit_bth_words(
      {.opcode = opcode, .pad = frame.pad, .pkey = qp_.pkey, .destination = qp_.remote, .psn = psn}, p);
  p += wire::kBthOctets;
  if (wire::shape_of(opcode).aeth) {
    wire::emit_aeth({.syndrome = syndrome, .msn = msn}, p);
    p += wire::kAethOctets;
  }
  if (atomic_original != nullptr) {
    wire::emit_atomic_ack_eth({*atomic_original}, p);
    p += wire::kAtomicAckEthOctets;
  }
  frame.header_octets = static_cast<std::uint8_t>(p - frame.header.data());
  frame.path = &qp_.path;
  ++qp_.counters->packets_sent;
  qp_.count(&Counters::octets_sent, &QueuePair::octets_sent, frame.payload_octets);
  sink.commit(frame);
}

// Adds the next `length` bytes of a READ response.
Cause Responder::add_response(const Response& response, const AccessVerdict& access, std::uint32_t length,
                              objects::Frame& frame) {
  if (access.kind == 0) [[likely]] {
    frame.add_span(access.host, length);
  } else {
    const ReadPart part = response.parts.first();
    const std::uint32_t left = part.end - part.next;
    const AccessVerdict rest = core_.memory.check_remote(
        *qp_.pd, qp_.qpn, response.rkey, response.address + part.next, left, objects::kRemoteRead);
    // No request has such a number: requests are counted from 0.
    const std::uint64_t number =
        std::uint64_t{1} << 63 | std::uint64_t{response.msn} << 24 | response.first_psn.value;
    const Cause cause = objects::add_staged_span(access, length, rest.ok() ? left : length, frame,
                                                 core_.staging, {qp_.qpn, number});
    if (cause != Cause::kNone) return Cause::kRemoteMemoryFault;
  }
  return objects::is_mapped(frame) ? Cause::kNone : Cause::kRemoteMemoryFault;
}

SendVerdict Responder::send_response(Response& response, objects::FrameSink& sink) {
  objects::Frame* frame = sink.reserve(qp_.path);
  if (frame == nullptr) return SendVerdict::kNoRoom;
  frame->clear();
  if (response.kind == Kind::kAtomic) {
    emit(*frame, sink, Step::kAtomicAcknowledge, response.first_psn, response.msn, &response.original);
    qp_.responses.mark_sent(response);
    return SendVerdict::kSent;
  }
  if (response.kind != Kind::kReadRequest) {
    emit(*frame, sink, Step::kReadResponseOnly, response.first_psn, response.msn, nullptr);
    qp_.responses.mark_sent(response);
    return SendVerdict::kSent;
  }
  const ReadPart part = response.parts.first();
  const std::uint32_t length = std::min(part.end - part.next, qp_.train_octets);
  const wire::Psn psn = response.first_psn + part.next / qp_.mtu;
  if (length != 0) {
    // Check the key for each packet: the region may have been deregistered since the request.
    const AccessVerdict access = core_.memory.check_remote(
        *qp_.pd, qp_.qpn, response.rkey, response.address + part.next, length, objects::kRemoteRead);
    const Cause cause = access.ok() ? add_response(response, access, length, *frame) : access.cause;
    if (cause != Cause::kNone && core_.yields_for_buffer()) {
      sink.cancel(*frame);
      return SendVerdict::kNoRoom;
    }
    if (cause != Cause::kNone && response.replaying) {
      // A late copy of an old request may arrive long after its answer, when the memory is in use for
      // something else. A requester that still waits learns that there is no answer; nothing else is
      // affected.
      ++qp_.counters->access_naks_sent;
      frame->clear();
      emit(*frame, sink, Step::kAcknowledge, psn, response.msn, nullptr,
           wire::kSyndromeNakBase | static_cast<std::uint8_t>(NakCode::kRemoteAccessError));
      qp_.responses.mark_sent(response);
      return SendVerdict::kSent;
    }
    if (cause != Cause::kNone) {
      sink.cancel(*frame);
      qp_.responses.clear();
      resp_.expected = psn;
      send_nak(refuse(NakCode::kRemoteAccessError, cause));
      return SendVerdict::kNothing;
    }
  }
  const bool first = !response.sending;
  const bool last = response.parts.advance(length);
  response.sending = !last;
  const Step step = last ? (first ? Step::kReadResponseOnly : Step::kReadResponseLast)
                         : (first ? Step::kReadResponseFirst : Step::kReadResponseMiddle);
  emit(*frame, sink, step, psn, response.msn, nullptr);
  if (response.parts.empty()) qp_.responses.mark_sent(response);
  return SendVerdict::kSent;
}

SendVerdict Responder::send_answer(objects::FrameSink& sink) {
  objects::Frame* frame = sink.reserve(qp_.path);
  if (frame == nullptr) return SendVerdict::kNoRoom;
  frame->clear();
  ++qp_.counters->acks_sent;
  emit(*frame, sink, Step::kAcknowledge, resp_.answer_psn, resp_.msn, nullptr, resp_.answer_syndrome);
  resp_.answer_due = false;
  return SendVerdict::kSent;
}

}  // namespace rrdma::transport
