#include "transport/unreliable/datagram.h"

#include "transport/completer.h"
#include "transport/requester.h"

namespace rrdma::transport {

using objects::Cause;
using objects::SendEntry;
using objects::SendOpcode;
using objects::Status;

SendVerdict Datagram::send_next(objects::FrameSink& sink) {
  RequesterState& req = qp_.req;
  if (!qp_.can_send() || qp_.state == QpState::kDrain || req.index == qp_.send_queue.tail())
    return SendVerdict::kNothing;
  SendEntry& entry = qp_.send_queue.at(req.index);
  if (entry.status != Status::kSuccess) return SendVerdict::kNothing;
  if (entry.datagram.handle == nullptr) [[unlikely]]  // an operation that datagrams do not have
    return fail_entry(entry, Status::kLocalQpOperationError, Cause::kOperationNotAllowed);
  const objects::Path& path = entry.datagram.handle->path;
  objects::Frame* frame = sink.reserve(path);
  if (frame == nullptr) return SendVerdict::kNoRoom;
  frame->clear();
  Cause cause = Cause::kNone;
  if (entry.is_inline()) {
    if (entry.length != 0) frame->add_span(qp_.send_queue.inline_data(req.index), entry.length);
    frame->own_payload = true;
  } else {
    cause = objects::gather(core_.memory, *qp_.pd, qp_.send_queue.list(req.index), 0, entry.length, *frame,
                            core_.staging, {.qpn = qp_.qpn, .number = req.index});
  }
  if (cause != Cause::kNone) {
    sink.cancel(*frame);
    if (core_.yields_for_buffer()) return SendVerdict::kNoRoom;
    return fail_entry(entry, Status::kLocalProtectionError, cause);
  }
  write_header(entry, *frame);
  frame->path = &path;
  count_sent(entry);
  sink.commit(*frame);
  entry.first_psn = req.next;
  entry.packet_count = 1;
  ++req.next;
  req.tx = req.sent = req.una = req.next;
  ++req.index;
  ++req.started;
  if (!qp_.unflushed_hook.linked()) core_.unflushed.push_back(qp_);
  return SendVerdict::kSent;
}

void Datagram::write_header(const SendEntry& entry, objects::Frame& frame) const {
  const bool immediate = entry.opcode == SendOpcode::kSendImmediate;
  frame.pad = wire::pad_for(entry.length);
  std::uint8_t* p = frame.header.data();
  wire::emit_bth({.opcode = wire::Opcode(wire::Transport::kUnreliableDatagram,
                                         immediate ? wire::Step::kSendOnlyImmediate : wire::Step::kSendOnly),
                  .solicited = (entry.flags & objects::kSendSolicited) != 0,
                  .pad = frame.pad,
                  .pkey = qp_.pkey,
                  .destination = wire::Qpn(entry.datagram.remote_qpn),
                  .psn = qp_.req.next},
                 p);
  p += wire::kBthOctets;
  // A Q_Key with its top bit set selects the QP's own (IBTA 10.2.5).
  const bool own_key = (entry.datagram.qkey & 0x80000000u) != 0;
  wire::emit_deth(
      {.qkey = own_key ? qp_.attributes.qkey : wire::QKey{entry.datagram.qkey}, .source = qp_.qpn}, p);
  p += wire::kDethOctets;
  if (immediate) {
    wire::emit_immediate({entry.immediate_or_key}, p);
    p += wire::kImmediateOctets;
  }
  frame.header_octets = static_cast<std::uint8_t>(p - frame.header.data());
}

void Datagram::count_sent(const SendEntry& entry) {
  auto& counters = *qp_.counters;
  ++counters.packets_sent;
  qp_.count(&Counters::messages_sent, &QueuePair::messages_sent);
  qp_.count(&Counters::octets_sent, &QueuePair::octets_sent, entry.length);
}

SendVerdict Datagram::fail_entry(SendEntry& entry, Status status, Cause cause) {
  Completer(core_, qp_, now_).fail_entry(entry, status, cause);
  return SendVerdict::kNothing;
}

void Datagram::handle(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) {
  auto& counters = *qp_.counters;
  const wire::TransportHeaders& headers = packet.headers;
  ResponderState& resp = qp_.resp;
  if (!resp.have_receive) {
    if (!qp_.incoming->take(resp.receive, resp.receive_list.get())) {
      ++counters.dropped_no_receive;
      return;
    }
    resp.have_receive = true;
  }
  const std::span<const objects::Sge> list{resp.receive_list.get(), resp.receive.sge_count};
  const auto length = static_cast<std::uint32_t>(packet.payload.size());
  if (length + kGrhOctets > objects::total_length(list)) {
    ++counters.dropped_too_long;  // keep the receive request for the next datagram
    return;
  }
  Cause cause = Cause::kNone;
  if (origin.grh != nullptr)
    cause = objects::scatter(core_.memory, qp_.receive_pd(), list, 0, {origin.grh, kGrhOctets}, false,
                             core_.staging, {.qpn = qp_.qpn});
  if (cause == Cause::kNone)
    cause = objects::scatter(core_.memory, qp_.receive_pd(), list, kGrhOctets, packet.payload, true,
                             core_.staging, {.qpn = qp_.qpn});
  objects::Completion completion{.wr_id = resp.receive.wr_id,
                                 .opcode = objects::CompletionOpcode::kReceive,
                                 .flags = objects::kWithGrh,
                                 .solicited = headers.bth.solicited,
                                 .byte_length = length + kGrhOctets,
                                 .qpn = qp_.qpn,
                                 .source_qpn = headers.deth.source,
                                 .service_level = origin.packet_type()};
  if (wire::shape_of(headers.bth.opcode).immediate) {
    completion.flags |= objects::kWithImmediate;
    completion.immediate_or_key = headers.immediate.raw;
  }
  resp.have_receive = false;
  if (cause != Cause::kNone) {  // a local mistake: the buffer does not match its registration
    completion.status = Status::kLocalProtectionError;
    completion.vendor_err = objects::vendor_error(cause, headers.bth.psn);
    core_.complete_receive(qp_, completion, now_);
    core_.fail_qp(qp_, now_);
    return;
  }
  qp_.count(&Counters::messages_received, &QueuePair::messages_received);
  qp_.count(&Counters::octets_received, &QueuePair::octets_received, length);
  core_.complete_receive(qp_, completion, now_);
}

}  // namespace rrdma::transport
