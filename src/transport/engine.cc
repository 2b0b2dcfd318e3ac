#include "transport/engine.h"

#include <algorithm>

#include "transport/completer.h"
#include "transport/qp/admission.h"
#include "transport/qp/send_opcode.h"
#include "transport/reliable/go_back_n.h"
#include "transport/reliable/selective_repeat.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/unreliable/datagram.h"

namespace rrdma::transport {

using objects::Cause;
using objects::SendEntry;
using objects::SendOpcode;
using objects::Status;

namespace {

// Frames that one QP may send in one turn.
constexpr int kQuantum = 16;
constexpr Duration kCnpInterval = microseconds(50);
// How many windows a QP may run ahead of a packet that is lost repeatedly.
constexpr std::uint32_t kLogWindows = 2;

}  // namespace

std::string_view describe(PostError error) {
  switch (error) {
    case PostError::kNone: return "ok";
    case PostError::kQueueFull:
      return "the work queue is full: poll completions before posting more, or create the QP with a larger "
             "queue";
    case PostError::kWrongState:
      return "the QP's state does not allow posting: sends need RTS, receives need INIT or later";
    case PostError::kTooManySges: return "more scatter/gather elements than the QP was created with";
    case PostError::kInlineTooLong: return "more inline data than the QP was created with (max_inline_data)";
    case PostError::kMessageTooLong:
      return "the message is longer than the transport allows (max_msg_sz; one path MTU for UD)";
    case PostError::kOperationNotSupported: return "this QP type has no such operation";
    case PostError::kBadRequest:
      return "the request lacks what its operation needs (address handle, memory window, 8 bytes for an "
             "atomic)";
  }
  return "unknown error";
}

Engine::Engine(const EngineConfig& config, objects::MemoryTable& memory, EventSink& events)
    : core_(config, memory, events) {}

Engine::~Engine() {
  std::vector<QueuePair*> left;
  table_.for_each([&](QueuePair& qp) { left.push_back(&qp); });
  for (QueuePair* qp : left) destroy_qp(*qp);
}

QueuePair& Engine::create_qp(const QpInit& init, wire::Qpn qpn) {
  auto* qp = new QueuePair(init.send_entries, init.send_sges, init.inline_octets, init.receive_entries,
                           init.receive_sges);
  qp->qpn = qpn;
  qp->type = init.type;
  qp->signal_all = init.signal_all;
  qp->device = init.device;
  qp->counters = &core_.by_device.of(init.device);
  qp->pd = init.pd;
  qp->send_cq = init.send_cq;
  qp->receive_cq = init.receive_cq;
  qp->shared_queue = init.shared_receive_queue;
  qp->incoming = init.shared_receive_queue != nullptr ? init.shared_receive_queue : &qp->receive_queue;
  qp->owner = init.owner;
  qp->xrc_domain = init.xrc_domain;
  const std::uint32_t list =
      init.type == QpType::kXrcReceive ? objects::kSgeMax : std::max(qp->incoming->sge_max(), 1u);
  qp->resp.receive_list = std::make_unique<objects::Sge[]>(list);
  if (init.type != QpType::kXrcReceive)
    ++qp->pd->users;  // an XRC target uses the domain of the addressed queue
  if (qp->send_cq != nullptr) ++qp->send_cq->users;
  if (qp->receive_cq != nullptr) ++qp->receive_cq->users;
  if (qp->shared_queue != nullptr) ++qp->shared_queue->users;
  table_.insert(qpn, *qp);
  core_.timers.reserve(table_.size());
  return *qp;
}

void Engine::destroy_qp(QueuePair& qp) {
  core_.events.on_qp_changed(qp, true);
  drop_work(qp);
  detach_multicast(qp);
  table_.erase(qp.qpn);
  if (qp.type != QpType::kXrcReceive) --qp.pd->users;
  if (qp.send_cq != nullptr) --qp.send_cq->users;
  if (qp.receive_cq != nullptr && qp.type != QpType::kXrcReceive) --qp.receive_cq->users;
  if (qp.shared_queue != nullptr) --qp.shared_queue->users;
  delete &qp;
}

void Engine::drop_work(QueuePair& qp) {
  core_.stop_sending(qp);
  while (!qp.send_queue.empty()) core_.take_oldest(qp);
  core_.memory.invalidate_windows_of(qp.qpn);
  qp.req.log.disable();
  qp.resp.early.disable();
}

void Engine::set_xrc_queue(std::uint32_t number, objects::ReceiveQueue* queue) {
  if (const objects::ReceiveQueue* gone = xrc_queue(number)) {
    table_.for_each([&](QueuePair& qp) {
      if (qp.type != QpType::kXrcReceive || qp.incoming != gone) return;
      qp.incoming = &qp.receive_queue;
      qp.receive_cq = nullptr;
      qp.resp.have_receive = false;
    });
  }
  std::erase_if(core_.xrc_queues, [&](const Core::XrcQueue& q) { return q.number == number; });
  if (queue != nullptr) core_.xrc_queues.push_back({number, queue});
}

// ---- control ----

Result<void, TransitionError> Engine::modify_qp(QueuePair& qp, const QpAttributes& attributes,
                                                std::uint32_t mask, Instant now) {
  if (auto checked = check_transition(qp.type, qp.state, attributes, mask); !checked) return checked;
  const QpState from = qp.state;
  const QpState to = (mask & kAttrState) != 0 ? attributes.state : from;
  if (to == QpState::kReset) {
    reset_qp(qp);
    core_.events.on_qp_changed(qp, false);
    return {};
  }
  apply(qp, attributes, mask);
  if (to == QpState::kError) {
    qp.responses.clear();
    qp.resp.answer_due = false;
    core_.fail_qp(qp, now);
    return {};
  }
  qp.state = to;
  core_.events.on_qp_changed(qp, false);
  if (from == QpState::kReadyToReceive && to == QpState::kReadyToSend) {
    RequesterState& req = qp.req;
    req.una = req.tx = req.sent = req.next = qp.attributes.send_psn;
    req.index = req.started = qp.send_queue.head();
    req.retries_left = qp.attributes.retry_count;
    req.rnr_left = qp.attributes.rnr_retry;
    start_recovery(qp);
  }
  if (to == QpState::kDrain && from != QpState::kDrain) {
    qp.req.drained_told = false;
    core_.check_drained(qp);
  }
  core_.schedule(qp);
  return {};
}

void Engine::set_peer_features(QueuePair& qp, std::uint8_t features) {
  qp.path.features = qp.attributes.path.features = features;
  qp.path.one_source_port = qp.attributes.path.one_source_port = (features & objects::kFeatureOnePort) != 0;
  follow_features(qp);
  if (qp.req.congestion.kind() == CongestionKind::kLoss) choose_congestion(qp);
}

// A reorder buffer stays until the QP ends: the peer relies on the packets that were reported to it.
void Engine::follow_features(QueuePair& qp) {
  const bool wanted = !core_.config.strict && !qp.path.strict && !qp.path.lossless && qp.reliable() &&
                      (qp.path.features & objects::kFeatureArrivals) != 0;
  if (wanted) qp.resp.early.enable(early_packets_);
}

void Engine::choose_congestion(QueuePair& qp) {
  const std::uint32_t packets = std::max(core_.config.window_octets_max / qp.mtu, 1u);
  CongestionKind kind = core_.config.congestion;
  if (kind == CongestionKind::kAutomatic) {
    kind = qp.path.same_host       ? CongestionKind::kNone
           : qp.path.features != 0 ? CongestionKind::kSwift
                                   : CongestionKind::kLoss;
  }
  if (kind != qp.req.congestion.kind() || qp.req.una == qp.req.sent)
    qp.req.congestion.choose(kind, packets, core_.config.fixed_window_packets);
}

void Engine::start_recovery(QueuePair& qp) {
  RequesterState& req = qp.req;
  const std::uint32_t packets = std::max(core_.config.window_octets_max / qp.mtu, 1u);
  req.round_trip = {};
  if (core_.config.strict || qp.path.strict || qp.path.lossless || !qp.reliable()) {
    req.recovery = &kGoBackN;
    req.psns_max = UINT32_MAX;
    req.congestion.choose_strict(packets);
    return;
  }
  req.recovery = &kSelectiveRepeat;
  req.executed = req.una;
  req.log.enable(packets * kLogWindows, flight_store_);
  req.psns_max = req.log.capacity();
  choose_congestion(qp);
}

void Engine::apply(QueuePair& qp, const QpAttributes& attributes, std::uint32_t mask) {
  QpAttributes& own = qp.attributes;
  if (mask & kAttrAccessFlags) own.access_flags = qp.access_flags = attributes.access_flags;
  if (mask & kAttrPKeyIndex) own.pkey_index = attributes.pkey_index;
  if (mask & kAttrPort) own.port = attributes.port;
  if (mask & kAttrQKey) own.qkey = attributes.qkey;
  if (mask & kAttrPathMtu) {
    own.path_mtu = attributes.path_mtu;
    qp.mtu = mtu_octets(attributes.path_mtu);
  }
  if (mask & kAttrPath) {
    qp.path = own.path = attributes.path;
    qp.peer_port = 0;
  }
  if (mask & kAttrDestinationQpn) qp.remote = own.destination = attributes.destination;
  if (mask & kAttrReceivePsn) qp.resp.expected = own.receive_psn = attributes.receive_psn;
  if (mask & kAttrSendPsn) own.send_psn = attributes.send_psn;
  if (mask & kAttrTimeout) {
    own.timeout = attributes.timeout;
    qp.ack_timeout = ack_timeout_of(attributes.timeout);
  }
  if (mask & kAttrRetryCount) own.retry_count = qp.req.retries_left = attributes.retry_count;
  if (mask & kAttrRnrRetry) own.rnr_retry = qp.req.rnr_left = attributes.rnr_retry;
  if (mask & kAttrMinRnrTimer) own.min_rnr_timer = attributes.min_rnr_timer;
  if (mask & kAttrMaxReads) own.max_reads = attributes.max_reads;
  if (mask & kAttrMaxDestinationReads) {
    own.max_destination_reads = attributes.max_destination_reads;
    qp.responses.allocate(attributes.max_destination_reads);
  }
  if (mask & kAttrPath) follow_features(qp);
  if (mask & kAttrDrainNotify) own.drain_notify = attributes.drain_notify;
  if (mask & (kAttrPath | kAttrPathMtu)) {
    fit_trains(qp);
    qp.train_accepted = std::max(std::max(qp.path.train_accepted, qp.path.train_octets), qp.mtu);
  }
}

void Engine::fit_trains(QueuePair& qp) const {
  qp.train_octets = core_.config.trains ? std::max(qp.path.train_octets / qp.mtu * qp.mtu, qp.mtu) : qp.mtu;
}

void Engine::set_trains(bool allowed) {
  core_.config.trains = allowed;
  for_each_qp([this](QueuePair& qp) {
    if (qp.mtu != 0) fit_trains(qp);
  });
}

void Engine::set_windows(std::uint32_t window_octets_max, std::uint32_t flight_octets_max) {
  core_.config.window_octets_max = window_octets_max;
  core_.config.flight_octets_max = flight_octets_max;
}

void Engine::reset_qp(QueuePair& qp) {
  if (qp.last_answer != nullptr) qp.last_answer->store(0, std::memory_order_relaxed);
  drop_work(qp);
  objects::ReceiveEntry dropped;
  for (std::uint32_t most = qp.receive_queue.capacity(); most > 0; --most) {
    if (!qp.receive_queue.take(dropped, qp.resp.receive_list.get()))
      break;  // a source may bring more for ever
  }
  auto list = std::move(qp.resp.receive_list);
  qp.req = {};
  qp.resp = {};
  qp.resp.receive_list = std::move(list);
  qp.responses.clear();
  qp.established_told = false;
  qp.peer_port = 0;
  qp.state = QpState::kReset;
  qp.attributes = {};
}

// ---- requests ----

PostError Engine::check_send(const QueuePair& qp, const SendEntry& entry,
                             std::span<const objects::Sge> list) const {
  if (qp.state == QpState::kReset || qp.state == QpState::kInit || qp.state == QpState::kReadyToReceive) {
    return PostError::kWrongState;
  }
  if (qp.type == QpType::kXrcReceive) return PostError::kOperationNotSupported;
  if (qp.send_queue.full()) return PostError::kQueueFull;
  // Check before the list is read: if the count is wrong, the list cannot be trusted.
  if (!entry.is_inline() && list.size() > qp.send_queue.sge_max()) return PostError::kTooManySges;
  // Taken whatever it asks for: it completes with an error (Requester::start, Datagram::send_next).
  if (!supports(qp.type, entry.opcode)) return PostError::kNone;
  const std::uint64_t length = objects::total_length(list);
  if (entry.is_inline()) {
    if (length > qp.send_queue.inline_max()) return PostError::kInlineTooLong;
    if (entry.opcode == SendOpcode::kRead || entry.opcode == SendOpcode::kCompareSwap ||
        entry.opcode == SendOpcode::kFetchAdd) {
      return PostError::kBadRequest;
    }
  }
  if (length > (qp.type == QpType::kUd ? qp.port_mtu : core_.config.message_octets_max))
    return PostError::kMessageTooLong;
  if (qp.type == QpType::kUd && entry.datagram.handle == nullptr) return PostError::kBadRequest;
  if (entry.opcode == SendOpcode::kBindWindow && entry.bind.window_key == 0) return PostError::kBadRequest;
  // A longer one is accepted and completes with an error (Requester::start).
  if (is_atomic(entry.opcode) && length < kAtomicOctets) return PostError::kBadRequest;
  return PostError::kNone;
}

PostError Engine::post_send(QueuePair& qp, const SendRequest& request, Instant now) {
  SendEntry& entry = next_entry(qp);
  entry = request.entry;
  return post_entry(qp, entry, request.list, now);
}

PostError Engine::post_entry(QueuePair& qp, SendEntry& entry, std::span<const objects::Sge> list,
                             Instant now) {
  if (const PostError error = check_send(qp, entry, list); error != PostError::kNone) return error;
  const std::uint64_t index = qp.send_queue.tail();
  entry.length = message_length(entry, list);
  if (!supports(qp.type, entry.opcode)) [[unlikely]] {
    entry.sge_count = 0;
    if (qp.type == QpType::kUd) entry.datagram.handle = nullptr;
  } else if (entry.is_inline()) {
    entry.sge_count = 0;
    std::uint8_t* to = qp.send_queue.inline_data(index);
    for (const objects::Sge& sge : list) {
      std::copy_n(reinterpret_cast<const std::uint8_t*>(sge.address), sge.length, to);
      to += sge.length;
    }
  } else {
    entry.sge_count = static_cast<std::uint8_t>(list.size());
    std::copy(list.begin(), list.end(), qp.send_queue.sges(index));
  }
  if (qp.type == QpType::kUd && entry.datagram.handle != nullptr) entry.datagram.handle->hold();
  qp.send_queue.publish();
  if (qp.state == QpState::kError || qp.state == QpState::kSendError) {
    core_.flush_sends(qp, now);
  } else {
    core_.schedule(qp);
  }
  return PostError::kNone;
}

PostError Engine::post_receive(QueuePair& qp, std::uint64_t wr_id, std::span<const objects::Sge> list,
                               Instant now) {
  if (qp.state == QpState::kReset || qp.shared_queue != nullptr) return PostError::kWrongState;
  if (list.size() > qp.receive_queue.sge_max()) return PostError::kTooManySges;
  if (!qp.receive_queue.post(wr_id, list)) return PostError::kQueueFull;
  if (qp.state == QpState::kError) core_.flush_receives(qp, now);
  return PostError::kNone;
}

// ---- packets and time ----

void Engine::handle_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin,
                           Instant now) {
  const wire::Bth& bth = packet.headers.bth;
  if (bth.destination == wire::kMulticastQpn) return deliver_multicast(packet, origin, now);
  QueuePair* qp = table_.find(bth.destination);
  Counters& counters = qp == nullptr ? core_.counters : *qp->counters;
  ++counters.packets_received;
  if (qp == nullptr) {
    ++counters.dropped_no_qp;
    return;
  }
  if (!admitted(*qp, packet.headers, origin)) return;
  if (qp->type == QpType::kUd) return Datagram(core_, *qp, now).handle(packet, origin);
  if (bth.opcode == wire::kCongestionNotification) {
    ++counters.cnps_received;
    if (qp->reliable() && qp->can_send())
      qp->req.congestion->on_mark(Moment{core_, *qp, now}.congestion_view());
    return;
  }
  if (origin.ecn_marked) {
    ++counters.ecn_marked;
    if (now >= qp->resp.cnp_allowed) {
      qp->resp.cnp_allowed = now + kCnpInterval;
      qp->resp.cnp_due = true;
      core_.schedule(*qp);
    }
  }
  const wire::Psn expected = qp->resp.expected, oldest = qp->req.una;
  if (wire::shape_of(bth.opcode).request) {
    Responder(core_, *qp, now).handle(packet);
  } else {
    Completer(core_, *qp, now).handle(packet);
  }
  // Only the peer can know the PSN, so pin its source port.
  const bool proved = qp->resp.expected != expected || qp->req.una != oldest;
  if (proved && qp->peer_port == 0 && qp->path.one_source_port) qp->peer_port = origin.source_port;
}

bool Engine::attach_multicast(QueuePair& qp, const wire::Gid& group) {
  const Membership membership{group, &qp};
  if (std::find(memberships_.begin(), memberships_.end(), membership) != memberships_.end()) return false;
  memberships_.push_back(membership);
  return true;
}

bool Engine::detach_multicast(QueuePair& qp, const wire::Gid& group) {
  return std::erase(memberships_, Membership{group, &qp}) != 0;
}

void Engine::detach_multicast(QueuePair& qp) {
  std::erase_if(memberships_, [&](const Membership& m) { return m.qp == &qp; });
}

void Engine::deliver_multicast(const wire::TransportPacket& packet, const objects::PacketOrigin& origin,
                               Instant now) {
  Counters* counters = &core_.counters;  // of the first QP that it reaches: count it as one packet
  const bool datagram = packet.headers.bth.opcode.transport() == wire::Transport::kUnreliableDatagram;
  bool any = false;
  for (const Membership& membership : memberships_) {
    if (!datagram || membership.group != origin.destination) continue;
    if (!any) counters = membership.qp->counters;
    any = true;
    if (admitted(*membership.qp, packet.headers, origin))
      Datagram(core_, *membership.qp, now).handle(packet, origin);
  }
  ++counters->packets_received;
  if (!any) ++(datagram ? counters->dropped_no_qp : counters->dropped_wrong_type);
}

Instant Engine::settled_deadline() {
  return core_.timers.settle([](const QueuePair& qp, Instant armed) {
    const RequesterState& req = qp.req;
    if (!qp.can_send()) return armed;
    if (req.waiting_rnr) return req.rnr_until;
    const bool paced = req.congestion.allowed_at() >= armed;
    return paced ? armed : std::min({req.ack_deadline, req.early_deadline, req.fails_at});
  });
}

void Engine::handle_timers(Instant now) {
  while (QueuePair* qp = core_.timers.pop_due(now)) Completer(core_, *qp, now).handle_timeout();
}

// One turn of a QP: answers first, then requests.
SendVerdict Engine::serve(QueuePair& qp, objects::FrameSink& sink, Instant now) {
  SendVerdict verdict = SendVerdict::kNothing;
  if (qp.resp.cnp_due && !send_cnp(qp, sink)) return SendVerdict::kNoRoom;
  if (qp.type != QpType::kUd) {
    // If the program replies at once, the reply carries the ACK.
    if (ack_may_ride(qp)) {
      verdict = Requester(core_, qp, now).send_next(sink);
      if (verdict == SendVerdict::kNoRoom) return verdict;
    }
    Responder responder(core_, qp, now);
    for (int i = 0; i < kQuantum; ++i) {
      verdict = responder.send_next(sink);
      if (verdict != SendVerdict::kSent) break;
    }
    if (verdict == SendVerdict::kNoRoom) return verdict;
    const bool more = verdict == SendVerdict::kSent;
    Requester requester(core_, qp, now);
    for (int i = 0; i < kQuantum; ++i) {
      verdict = requester.send_next(sink);
      if (verdict != SendVerdict::kSent) break;
    }
    // Answers must not wait for the budget of requests: the peer may be waiting for them.
    return more && verdict != SendVerdict::kNoRoom ? SendVerdict::kSent : verdict;
  }
  Datagram datagram(core_, qp, now);
  for (int i = 0; i < kQuantum; ++i) {
    verdict = datagram.send_next(sink);
    if (verdict != SendVerdict::kSent) break;
  }
  return verdict;
}

bool Engine::send_cnp(QueuePair& qp, objects::FrameSink& sink) {
  static constexpr std::uint8_t kReserved[16] = {};
  objects::Frame* frame = sink.reserve(qp.path);
  if (frame == nullptr) return false;
  frame->clear();
  wire::emit_bth(
      {.opcode = wire::kCongestionNotification, .pkey = qp.pkey, .becn = true, .destination = qp.remote},
      frame->header.data());
  frame->header_octets = wire::kBthOctets;
  frame->path = &qp.path;
  frame->add_span(kReserved, sizeof kReserved);
  sink.commit(*frame);
  ++qp.counters->cnps_sent;
  qp.resp.cnp_due = false;
  return true;
}

bool Engine::transmit(objects::FrameSink& sink, Instant now) {
  // Fairness on a link with little room: QPs that found no room go first next time, before those that used
  // the last of it.
  IntrusiveList<QueuePair, &QueuePair::ready_hook> starved, served;
  core_.direct_left = core_.config.direct_octets_max;
  core_.yielded = false;
  while (!core_.ready.empty()) {
    QueuePair& qp = core_.ready.pop_front();
    const std::uint32_t direct_before = core_.direct_left;
    const std::uint64_t sent_before = qp.counters->packets_sent;
    switch (serve(qp, sink, now)) {
      case SendVerdict::kSent: core_.schedule(qp); break;
      case SendVerdict::kNothing: break;
      case SendVerdict::kNoBudget: core_.wait_for_budget(qp); break;
      case SendVerdict::kNoRoom:
        if (!qp.ready_hook.linked()) {
          const bool got_some =
              qp.counters->packets_sent != sent_before || core_.direct_left != direct_before;
          (got_some ? served : starved).push_back(qp);
        }
        break;
    }
  }
  core_.counters.direct_turn_octets_max = std::max<std::uint64_t>(
      core_.counters.direct_turn_octets_max, core_.config.direct_octets_max - core_.direct_left);
  while (!starved.empty()) core_.ready.push_back(starved.pop_front());
  while (!served.empty()) core_.ready.push_back(served.pop_front());
  return !core_.ready.empty();
}

bool Engine::transmit_straight(QueuePair& qp, objects::FrameSink& sink, Instant now) {
  if (core_.ready.empty()) return true;
  QueuePair& first = core_.ready.pop_front();
  if (&first == &qp && core_.ready.empty()) {
    core_.yielded = false;
    if (Requester(core_, qp, now).send_straight(sink)) return true;
  }
  if (!first.ready_hook.linked()) core_.ready.push_front(first);
  return false;
}

void Engine::flushed(Instant now) {
  core_.staging.flushed();
  while (!core_.unflushed.empty()) {
    QueuePair& qp = core_.unflushed.pop_front();
    Completer(core_, qp, now).retire();
  }
}

void Engine::handle_last_answer(QueuePair& qp, const wire::LastAnswer& answer, Instant now) {
  if (!qp.reliable() || qp.send_queue.empty()) return;
  wire::TransportPacket packet;
  packet.headers.bth = {.opcode = wire::Opcode(qp.transport(), wire::Step::kAcknowledge),
                        .pkey = qp.pkey,
                        .destination = qp.qpn,
                        .psn = answer.psn};
  packet.headers.aeth = {.syndrome = wire::kSyndromeAckNoCredits, .msn = answer.msn};
  Completer(core_, qp, now).handle(packet);
}

void Engine::peer_gone(QueuePair& qp, Instant now) {
  if (!qp.reliable() || !qp.can_send() || qp.send_queue.empty()) return;
  Completer(core_, qp, now).fail_after_silence();
}

}  // namespace rrdma::transport
