#include "transport/qp/failed_request.h"

#include <algorithm>

#include "transport/qp/queue_pair.h"
#include "transport/qp/send_opcode.h"

namespace rrdma::transport {

using objects::Cause;
using objects::CompletionOpcode;
using objects::SendEntry;
using objects::Status;

namespace {

bool decided_by_answer(Cause cause) {
  switch (cause) {
    case Cause::kPeerSaidInvalidRequest:
    case Cause::kPeerSaidAccessError:
    case Cause::kPeerSaidOperationalError:
    case Cause::kPeerNotReady:
    case Cause::kPeerKeepsNaking: return true;
    default: return false;
  }
}

std::uint32_t moved_of(const QueuePair& qp, const SendEntry& entry) {
  if (entry.packet_count == 0) return 0;  // never started
  if (awaits_response(entry.opcode)) return entry.received;
  const std::int64_t packets = std::max<std::int64_t>(qp.req.una.since(entry.first_psn), 0);
  return static_cast<std::uint32_t>(std::min<std::int64_t>(packets * qp.mtu, entry.length));
}

CompletionOpcode opcode_of(const wire::TransportPacket* packet) {
  if (packet == nullptr) return CompletionOpcode::kRead;
  switch (wire::shape_of(packet->headers.bth.opcode).kind) {
    case wire::Kind::kWrite: return CompletionOpcode::kWrite;
    case wire::Kind::kReadRequest: return CompletionOpcode::kRead;
    case wire::Kind::kAtomic:
      return packet->headers.bth.opcode.step() == wire::Step::kCompareSwap ? CompletionOpcode::kCompareSwap
                                                                           : CompletionOpcode::kFetchAdd;
    case wire::Kind::kFlush: return CompletionOpcode::kFlush;
    case wire::Kind::kAtomicWrite: return CompletionOpcode::kAtomicWrite;
    default: return CompletionOpcode::kSend;
  }
}

Status status_at_peer(wire::NakCode nak) {
  switch (nak) {
    case wire::NakCode::kInvalidRequest: return Status::kRemoteInvalidRequest;
    case wire::NakCode::kRemoteAccessError: return Status::kRemoteAccessError;
    default: return Status::kRemoteOperationError;
  }
}

}  // namespace

FailedRequest failed_send(const QueuePair& qp, const SendEntry& entry, Status status, Cause cause,
                          Instant now) {
  FailedRequest failed{.side = FailedRequest::Side::kSend,
                       .status = status,
                       .cause = cause,
                       .opcode = objects::completion_opcode(entry.opcode),
                       .wr_id = entry.wr_id,
                       .length = entry.length,
                       .moved = moved_of(qp, entry),
                       .rkey = entry.rkey,
                       .remote_address = entry.remote_address,
                       .psn = entry.first_psn,
                       .peer = qp.path.remote,
                       .peer_qpn = qp.remote,
                       .at = now,
                       .posted = entry.posted};
  if (qp.type == QpType::kUd) {
    if (entry.datagram.handle != nullptr) failed.peer = entry.datagram.handle->path.remote;
    failed.peer_qpn = wire::Qpn(entry.datagram.remote_qpn);
  }
  if (decided_by_answer(cause)) failed.syndrome = qp.attempts.syndrome;
  if (qp.reliable() && entry.packet_count != 0 && qp.req.una.after(failed.psn)) failed.psn = qp.req.una;
  return failed;
}

FailedRequest failed_receive(const QueuePair& qp, const objects::Completion& completion, Instant now) {
  const bool datagram = qp.type == QpType::kUd;
  return {.side = FailedRequest::Side::kReceive,
          .status = completion.status,
          .cause = objects::cause_of(completion.vendor_err),
          .opcode = completion.opcode,
          .wr_id = completion.wr_id,
          .length = qp.resp.receive_length,
          .moved = datagram ? completion.byte_length : qp.resp.offset,
          .psn = objects::psn_of(completion.vendor_err),
          .peer = qp.path.remote,
          .peer_qpn = datagram ? completion.source_qpn : qp.remote,
          .at = now,
          .elements = {qp.resp.receive_list.get(), qp.resp.receive_list ? qp.resp.receive.sge_count : 0}};
}

FailedRequest refused_request(const QueuePair& qp, const wire::TransportPacket* packet, wire::NakCode nak,
                              Cause cause, Instant now) {
  FailedRequest failed{
      .side = FailedRequest::Side::kRefused,
      .status = status_at_peer(nak),
      .cause = cause,
      .opcode = opcode_of(packet),
      .psn = qp.resp.expected,
      .peer = qp.path.remote,
      .peer_qpn = qp.remote,
      .syndrome = static_cast<std::uint8_t>(wire::kSyndromeNakBase | static_cast<std::uint8_t>(nak)),
      .at = now};
  if (packet == nullptr) return failed;
  const wire::OpcodeShape& shape = wire::shape_of(packet->headers.bth.opcode);
  if (shape.reth) {
    failed.rkey = packet->headers.reth.rkey;
    failed.remote_address = packet->headers.reth.address;
    failed.length = packet->headers.reth.length;
  } else if (shape.atomic_eth) {
    failed.rkey = packet->headers.atomic.rkey;
    failed.remote_address = packet->headers.atomic.address;
    failed.length = 8;
  } else if (shape.kind == wire::Kind::kWrite) {  // not its first packet
    failed.rkey = qp.resp.rkey;
    failed.remote_address = qp.resp.address;
    failed.length = qp.resp.length;
    failed.moved = qp.resp.offset;
  } else {
    failed.length = static_cast<std::uint32_t>(packet->payload.size());
  }
  return failed;
}

}  // namespace rrdma::transport
