#include "transport/core.h"

#include "transport/qp/failed_request.h"

namespace rrdma::transport {

using objects::Cause;
using objects::SendEntry;
using objects::Status;

void Core::schedule(QueuePair& qp) {
  if (qp.waits_for_budget) {
    // The QP may have an answer to send, which needs no budget.
    qp.ready_hook.unlink();
    qp.waits_for_budget = false;
  }
  if (!qp.ready_hook.linked()) ready.push_back(qp);
}

void Core::wait_for_budget(QueuePair& qp) {
  if (qp.ready_hook.linked()) return;
  waiting.push_back(qp);
  qp.waits_for_budget = true;
}

void Core::set_flight(QueuePair& qp, std::uint32_t packets) {
  if (!qp.path.lossless) {
    flight_octets += std::uint64_t{packets} * qp.mtu;
    flight_octets -= std::uint64_t{qp.req.flight_packets} * qp.mtu;
  }
  const bool freed = packets < qp.req.flight_packets;
  qp.req.flight_packets = packets;
  while (freed && !waiting.empty()) schedule(waiting.front());
}

objects::ReceiveQueue* Core::xrc_queue(std::uint32_t number) const {
  for (const auto& entry : xrc_queues) {
    if (entry.number == number) return entry.queue;
  }
  return nullptr;
}

// ---- completion: success, an error that fails the QP, or flushed behind an error ----

void Core::complete_send(QueuePair& qp, const SendEntry& entry, Status status, Cause cause, Instant now) {
  const bool wanted = qp.signal_all || (entry.flags & objects::kSendSignaled) != 0;
  if (status == Status::kSuccess && !wanted) return;
  ++qp.counters->send_completions;
  if (status != Status::kSuccess) ++qp.counters->error_completions;
  qp.send_cq->push(
      {.wr_id = entry.wr_id,
       .status = status,
       .opcode = objects::completion_opcode(entry.opcode),
       .byte_length = entry.length,
       .qpn = qp.qpn,
       .vendor_err = status == Status::kSuccess ? 0 : objects::vendor_error(cause, entry.first_psn),
       .timestamp_ns = now.ns},
      &held_events);
}

void Core::complete_receive(QueuePair& qp, objects::Completion& completion, Instant now) {
  ++qp.counters->receive_completions;
  if (completion.status != Status::kSuccess) {
    ++qp.counters->error_completions;
    if (completion.status != Status::kFlushed)
      events.on_request_failed(qp, failed_receive(qp, completion, now));
  }
  completion.timestamp_ns = now.ns;
  if (qp.receive_cq != nullptr) qp.receive_cq->push(completion, &held_events);
}

void Core::stop_sending(QueuePair& qp) {
  if (qp.ready_hook.linked()) qp.ready_hook.unlink();
  qp.waits_for_budget = false;
  if (qp.unflushed_hook.linked()) qp.unflushed_hook.unlink();
  timers.cancel(qp);
  set_flight(qp, 0);
  qp.req.ack_deadline = qp.req.early_deadline = qp.req.fails_at = kNever;
  qp.req.waiting_rnr = false;
  qp.req.log.clear();
  staging.forget(qp.qpn);
}

void Core::fail_qp(QueuePair& qp, Instant now) {
  if (qp.state == QpState::kError) return;
  qp.state = QpState::kError;
  events.on_qp_changed(qp, false);
  stop_sending(qp);
  qp.resp.early.clear();
  flush_sends(qp, now);
  flush_receives(qp, now);
  // Receive requests of a shared queue stay there. Tell the owner that the QP takes no more of them.
  if (qp.shared_queue != nullptr) events.on_qp_event(qp, QpEvent::kLastReceiveReached);
  if (qp.resp.answer_due || qp.responses.any_pending()) schedule(qp);
}

const SendEntry& Core::take_oldest(QueuePair& qp) {
  const SendEntry& entry = qp.send_queue.at(qp.send_queue.head());
  qp.send_queue.retire();
  if (qp.type == QpType::kUd && entry.datagram.handle != nullptr) entry.datagram.handle->release();
  return entry;
}

void Core::flush_sends(QueuePair& qp, Instant now) {
  const auto count = static_cast<std::uint32_t>(qp.send_queue.tail() - qp.send_queue.head());
  if (count != 0) events.on_requests_flushed(qp, count, 0);
  while (!qp.send_queue.empty()) {
    complete_send(qp, take_oldest(qp), Status::kFlushed, Cause::kFlushed, now);
  }
  qp.req.index = qp.req.started = qp.send_queue.head();
  qp.req.next = qp.req.tx;  // releases PSNs that were assigned but not sent; UC and UD continue from here
                            // after SQE
}

void Core::flush_receives(QueuePair& qp, Instant now) {
  const auto count = static_cast<std::uint32_t>(qp.receive_queue.size()) + (qp.resp.have_receive ? 1 : 0);
  if (count != 0) events.on_requests_flushed(qp, 0, count);
  const auto flush = [&](std::uint64_t wr_id) {
    objects::Completion completion{.wr_id = wr_id,
                                   .status = Status::kFlushed,
                                   .opcode = objects::CompletionOpcode::kReceive,
                                   .qpn = qp.qpn,
                                   .vendor_err = objects::vendor_error(Cause::kFlushed, qp.resp.expected)};
    complete_receive(qp, completion, now);
  };
  if (qp.resp.have_receive) {
    qp.resp.have_receive = false;
    flush(qp.resp.receive.wr_id);
  }
  // A source may bring more for ever; its owner has no more than the queue holds.
  objects::ReceiveEntry entry;
  for (std::uint32_t most = qp.receive_queue.capacity(); most > 0; --most) {
    if (!qp.receive_queue.take(entry, qp.resp.receive_list.get())) break;
    flush(entry.wr_id);
  }
}

void Core::check_drained(QueuePair& qp) {
  if (qp.state != QpState::kDrain || qp.req.drained_told || qp.send_queue.head() != qp.req.started) return;
  qp.req.drained_told = true;
  if (qp.attributes.drain_notify) events.on_qp_event(qp, QpEvent::kSendQueueDrained);
}

}  // namespace rrdma::transport
