// EndpointState, life cycle: connecting, accepting, closing and tearing down.
#include <algorithm>
#include <cerrno>

#include "lib/comm/endpoint_state.h"
#include "lib/comm/window_state.h"
#include "rrdma/comm/listener.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {
namespace {

constexpr int kResolveMs = 2000;
// Inline sizes to request in this order; the device may refuse the larger ones.
constexpr std::uint32_t kInlineWishes[] = {256, 220, 188, 128, 64, 28, 0};
constexpr int kNobodyListens = 8;  // reject reason "invalid service ID" (IBTA 12.6.7.2)
// The wait for the answer to a probe is Profile::keep_alive, but at least this: a busy machine is no dead
// one.
constexpr std::chrono::milliseconds kLeastPatience{1000};
constexpr std::uint32_t kPatienceTicks = 4;
// Bytes. An answer waits for the requests before it, which may be large, and the link slow.
constexpr std::size_t kSlowestPerMillisecond = 64;

// librdmacm reports -1, which is not -EPERM, if it could not use the answer.
int errno_of(const rdma_cm_event& event) { return event.status < -1 ? -event.status : 0; }

}  // namespace

EndpointState::EndpointState(Ref<Reactor> reactor, const Profile& profile, std::string hello)
    : reactor_(std::move(reactor)), profile_(profile), hello_(std::move(hello)) {
  profile_.hello = {};
  profile_.receive_depth = std::max<std::uint16_t>(profile.receive_depth, 4);
  profile_.send_depth = std::max<std::uint16_t>(profile.send_depth, 4);
  silent_.arrive = &EndpointState::silent_arrived;
  silent_.endpoint = this;
}

EndpointState::~EndpointState() {
  reactor_->timers().cancel(&probe_alarm_);
  reactor_->timers().cancel(&linger_alarm_);
  destroy_queue_pair();
  if (id_ != nullptr) rdma_destroy_id(id_);
}

Error EndpointState::error_for(Code code, During during, int detail) const {
  return Error(code, during, detail).with_peer(peer_name_);
}

Error EndpointState::end_of_messages(During during) const {
  return error_for(closing_.reason(reason_), during, closing_.either() ? 0 : reason_detail_);
}

// ---- queues ----

Result<void> EndpointState::create_queue_pair(std::uint32_t send_entries) {
  for (const std::uint32_t wish : kInlineWishes) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = shard_->queue;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap.max_send_wr = send_entries;
    attributes.cap.max_recv_wr = profile_.receive_depth;
    attributes.cap.max_send_sge = 2;
    attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = wish;
    if (rdma_create_qp(id_, reactor_->domain(), &attributes) == 0) {
      queue_pair_ = id_->qp;
      inline_limit_ = std::max(wish, attributes.cap.max_inline_data);
      return {};
    }
    if (errno != EINVAL && errno != ENOMEM && errno != EOPNOTSUPP) break;
  }
  Error error = error_for(Code::kSystem, During::kConnect, errno);
  return std::move(error).with_note("no queue pair of depths " + std::to_string(send_entries) + " and " +
                                    std::to_string(profile_.receive_depth));
}

Result<void> EndpointState::make_queues() {
  const auto most = static_cast<std::uint32_t>(reactor_->limits().max_qp_wr);
  const std::uint32_t room = std::min<std::uint32_t>(profile_.send_depth, most - SendHalf::kExtraRoom);
  profile_.receive_depth = static_cast<std::uint16_t>(std::min<std::uint32_t>(profile_.receive_depth, most));
  const std::uint32_t send_entries = room + SendHalf::kExtraRoom;
  auto shard = reactor_->reserve_completions(send_entries + profile_.receive_depth);
  if (!shard) return shard.error();
  shard_ = *shard;
  shard_entries_ = send_entries + profile_.receive_depth;
  if (auto made = create_queue_pair(send_entries); !made) return made.error();

  auto scratch = reactor_->pool()->take(SendHalf::kScratch * send_entries);
  if (!scratch) return scratch.error();
  scratch_ = std::move(*scratch);
  send_.open(room, scratch_.data(), this, &EndpointState::send_arrived);

  auto ring = reactor_->pool()->take(ReceiveHalf::stride_of(profile_.message_limit) * profile_.receive_depth,
                                     Pages::kOrdinary);
  if (!ring) return ring.error();
  ring_ = std::move(*ring);
  receive_.open(profile_.receive_depth, profile_.message_limit, ring_.data(),
                PoolState::chunk_of(ring_)->lkey, this, &EndpointState::receive_arrived);
  if (!post_released()) return error_for(reason_, During::kConnect, reason_detail_);
  credits_.grant();  // the hello names them
  return {};
}

void EndpointState::destroy_queue_pair() {
  while (WindowState* window = windows_.pop_front()) window->close();
  if (queue_pair_ != nullptr) rdma_destroy_qp(id_);
  queue_pair_ = nullptr;
  if (shard_ != nullptr) reactor_->release_completions(std::exchange(shard_, nullptr), shard_entries_);
}

// ---- connecting ----

void EndpointState::connect(Opener* opener, const std::string& address) {
  opener_ = opener;
  peer_name_ = std::make_shared<const std::string>(address);
  reactor_->move_in(this);
  look_up(address);
}

void EndpointState::look_up(const std::string& address) {
  auto parsed = parse_address(address, false);
  if (!parsed) return fail_opening(parsed.error());
  if (auto numeric = numeric_address(*parsed); numeric) return resolve(*numeric);
  // Resolving a name may take long, so a separate thread does it and reports to the inbox.
  phase_ = Phase::kLookingUp;
  reactor_->look_up(*parsed, [endpoint = Ref<EndpointState>(this)](Result<SocketAddress> found) {
    if (endpoint->phase_ != Phase::kLookingUp) return;
    if (found) {
      endpoint->resolve(*found);
    } else {
      endpoint->fail_opening(found.error());
    }
  });
}

void EndpointState::resolve(const SocketAddress& target) {
  phase_ = Phase::kResolving;
  peer_name_ = std::make_shared<const std::string>(text_of(target.generic()));
  SocketAddress copy = target;
  if (rdma_create_id(reactor_->cm_channel(), &id_, static_cast<CmTarget*>(this), RDMA_PS_TCP) != 0) {
    id_ = nullptr;
    return fail_opening(error_for(Code::kSystem, During::kConnect, errno));
  }
  if (rdma_resolve_addr(id_, nullptr, copy.generic(), kResolveMs) != 0) {
    Error error = error_for(Code::kUnreachable, During::kConnect, errno);
    return fail_opening(std::move(error).with_note("no device has a route to it"));
  }
}

void EndpointState::handle_route() {
  if (id_->verbs != reactor_->verbs()) {
    Error error = error_for(Code::kUnreachable, During::kConnect, 0);
    return fail_opening(std::move(error).with_note("it is reached through " +
                                                   std::string(ibv_get_device_name(id_->verbs->device)) +
                                                   ", this context uses " + reactor_->device().name));
  }
  if (auto made = make_queues(); !made) return fail_opening(made.error());
  const std::string octets = emit_hello({profile_.receive_depth, profile_.message_limit, hello_});
  rdma_conn_param parameters{};
  parameters.private_data = octets.data();
  parameters.private_data_len = static_cast<std::uint8_t>(octets.size());
  const ibv_device_attr& limits = reactor_->limits();
  parameters.responder_resources =
      static_cast<std::uint8_t>(std::min<int>(profile_.reads, limits.max_qp_rd_atom));
  parameters.initiator_depth =
      static_cast<std::uint8_t>(std::min<int>(profile_.reads, limits.max_qp_init_rd_atom));
  parameters.flow_control = 1;
  parameters.retry_count = std::min<std::uint8_t>(profile_.retry, 7);
  parameters.rnr_retry_count = std::min<std::uint8_t>(profile_.rnr_retry, 7);
  phase_ = Phase::kConnecting;
  if (rdma_connect(id_, &parameters) != 0) fail_opening(error_for(Code::kSystem, During::kConnect, errno));
}

void EndpointState::accept(Opener* opener, rdma_cm_id* id, const Hello& peer,
                           const rdma_conn_param& request) {
  opener_ = opener;
  id_ = id;
  id_->context = static_cast<CmTarget*>(this);
  peer_hello_ = peer;
  peer_limit_ = peer.message_limit;
  credits_.open(peer.receive_depth);
  take_names();
  reactor_->move_in(this);
  if (auto made = make_queues(); !made) {
    const std::string why = emit_refusal(
        {Refusal::kBusy, kProtocolVersion, 0, "it has no memory or queues for another connection"});
    rdma_reject(id_, why.data(), static_cast<std::uint8_t>(why.size()));
    return fail_opening(made.error());
  }
  const std::string octets = emit_hello({profile_.receive_depth, profile_.message_limit, hello_});
  rdma_conn_param parameters{};
  parameters.private_data = octets.data();
  parameters.private_data_len = static_cast<std::uint8_t>(octets.size());
  const ibv_device_attr& limits = reactor_->limits();
  // Our responder resources bound the peer's initiator depth, and vice versa.
  parameters.responder_resources = static_cast<std::uint8_t>(
      std::min<int>({profile_.reads, limits.max_qp_rd_atom, request.responder_resources}));
  parameters.initiator_depth = static_cast<std::uint8_t>(
      std::min<int>({profile_.reads, limits.max_qp_init_rd_atom, request.initiator_depth}));
  parameters.flow_control = 1;
  parameters.rnr_retry_count = std::min<std::uint8_t>(profile_.rnr_retry, 7);
  phase_ = Phase::kAccepting;
  if (rdma_accept(id_, &parameters) != 0) fail_opening(error_for(Code::kSystem, During::kAccept, errno));
}

void EndpointState::take_names() {
  peer_name_ = std::make_shared<const std::string>(text_of(rdma_get_peer_addr(id_)));
  local_name_ = text_of(rdma_get_local_addr(id_));
}

void EndpointState::handle_event(const rdma_cm_event& event) {
  const Ref<EndpointState> self(this);
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (phase_ != Phase::kResolving) return;
      phase_ = Phase::kRouting;
      if (rdma_resolve_route(id_, kResolveMs) != 0)
        fail_opening(error_for(Code::kUnreachable, During::kConnect, errno));
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (phase_ == Phase::kRouting) handle_route();
      return;
    case RDMA_CM_EVENT_ESTABLISHED: return handle_established(event);
    case RDMA_CM_EVENT_REJECTED: return handle_refusal(event);
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      if (opener_ != nullptr)
        return fail_opening(error_for(Code::kUnreachable, During::kConnect, errno_of(event)));
      return break_off(Code::kPeerGone, 0);
    case RDMA_CM_EVENT_DISCONNECTED:
      closing_.disconnected();
      if (phase_ == Phase::kGone) return leave();
      if (opener_ != nullptr) return fail_opening(error_for(Code::kPeerGone, During::kConnect, 0));
      return break_off(closing_.loss(), 0);
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      closing_.disconnected();
      if (phase_ == Phase::kGone) leave();
      return;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return opener_ != nullptr ? fail_opening(error_for(Code::kNoDevice, During::kConnect, 0))
                                : abort(Code::kNoDevice);
    default: return;
  }
}

void EndpointState::handle_established(const rdma_cm_event& event) {
  if (phase_ == Phase::kConnecting) {
    const auto* octets = static_cast<const std::byte*>(event.param.conn.private_data);
    const HelloFault fault =
        parse_hello({octets, octets != nullptr ? event.param.conn.private_data_len : 0U}, peer_hello_);
    if (fault != HelloFault::kNone) {
      Error error = error_for(Code::kVersion, During::kConnect, 0);
      return fail_opening(std::move(error).with_note("it answers with another protocol or version"));
    }
    peer_limit_ = peer_hello_.message_limit;
    credits_.open(peer_hello_.receive_depth);
    take_names();
  } else if (phase_ != Phase::kAccepting) {
    return;
  }
  phase_ = Phase::kOpen;
  if (profile_.keep_alive.count() > 0) set_probe_alarm(profile_.keep_alive);
  if (opener_ != nullptr) {
    std::exchange(opener_, nullptr)->opened();
  } else {
    handle_gone();
  }
}

void EndpointState::handle_refusal(const rdma_cm_event& event) {
  if (phase_ != Phase::kConnecting) return;
  const auto* octets = static_cast<const std::byte*>(event.param.conn.private_data);
  const auto note = parse_refusal({octets, octets != nullptr ? event.param.conn.private_data_len : 0U});
  if (note) {
    Error error = error_for(note->kind == Refusal::kVersion ? Code::kVersion : Code::kRefused,
                            During::kConnect, note->reason);
    return fail_opening(std::move(error).with_note(note->text));
  }
  Error error = error_for(Code::kRefused, During::kConnect, 0);
  fail_opening(std::move(error).with_note(event.status == kNobodyListens
                                              ? "nobody listens there"
                                              : "rdma_cm's reason is " + std::to_string(event.status)));
}

void EndpointState::fail_opening(Error error) {
  reason_ = error.code();
  Opener* opener = std::exchange(opener_, nullptr);
  abort(error.code());
  if (opener != nullptr) opener->not_opened(std::move(error));
}

void EndpointState::forsake() {
  opener_ = nullptr;
  abort(Code::kClosed);
}

// ---- closing ----

void EndpointState::handle_gone() {
  if (phase_ != Phase::kOpen) return;
  start_linger();
  // Release unread messages, so that the peer does not wait for credits.
  while (ReceiveSlot* slot = receive_.take_message()) release(slot);
  start_close();
}

void EndpointState::start_close() {
  if (closing_.begun() || phase_ != Phase::kOpen) return;
  closing_.begin();
  fail_receivers();
  if (closing_.peer_closed()) return stay_behind();
  reactor_->settle_later(this);
}

// The peer closed first; do not send a close of our own. Linger instead: the acknowledgement of the peer's
// close may be lost, and the device repeats it as long as the queue pair exists. The peer disconnects once it
// has the acknowledgement.
void EndpointState::stay_behind() {
  closing_.message_sent();
  finish_settlers();
  start_linger();
}

void EndpointState::start_linger() {
  reactor_->timers().cancel(&linger_alarm_);
  reactor_->timers().set(&linger_alarm_, Limit(reactor_->options().linger).at());
}

void EndpointState::close_acknowledged() {
  closing_.message_acknowledged();
  finish_settlers();
  break_off(Code::kClosed, 0);
}

void EndpointState::finish_settlers() {
  while (Settling* settling = settlers_.pop_front()) {
    // If the peer has closed too, the close is complete: there is no one left to notify.
    if (closing_.complete()) {
      settling->complete();
    } else {
      settling->fail(error_for(reason_, During::kClose, reason_detail_));
    }
  }
}

void EndpointState::begin(Settling* settling) {
  if (phase_ != Phase::kOpen) {
    // The connection is already over. Delivery of everything sent is certain only if a close message was
    // exchanged.
    if (closing_.complete()) return settling->complete();
    return settling->fail(error_for(reason_, During::kClose, reason_detail_));
  }
  settlers_.push_back(settling);
  start_close();
}

void EndpointState::linger_over() {
  const Ref<EndpointState> self(this);
  if (phase_ == Phase::kGone) return leave();
  abort(Code::kClosed);
}

// A peer that received our close or sent its own needs no disconnect. Any other peer does.
bool EndpointState::lingering() const {
  if (phase_ == Phase::kGone) return closing_.awaits_disconnect();
  return phase_ == Phase::kDraining || (phase_ == Phase::kOpen && closing_.begun());
}

// ---- the end ----

void EndpointState::fail_queued() {
  while (Transfer* transfer = send_.queued().pop_front()) transfer->fail(end_of_messages(transfer->during()));
}

void EndpointState::fail_posted(Code code, int detail) {
  send_.take_waiters([&](Transfer* waiter) {
    waiter->posting_ = nullptr;
    waiter->fail(code, detail);
  });
}

void EndpointState::disconnect() {
  if (id_ == nullptr || queue_pair_ == nullptr) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(queue_pair_, &attributes, IBV_QP_STATE);
  closing_.disconnect(rdma_disconnect(id_) == 0);
}

void EndpointState::break_off(Code code, int detail) {
  if (phase_ == Phase::kDraining || phase_ == Phase::kGone) return;
  // If the peer violates the protocol while connecting, fail the opener.
  if (opener_ != nullptr)
    return fail_opening(
        error_for(code, phase_ == Phase::kAccepting ? During::kAccept : During::kConnect, detail));
  const bool was_open = phase_ == Phase::kOpen;
  phase_ = Phase::kDraining;
  reason_ = code;
  reason_detail_ = detail;
  reactor_->timers().cancel(&probe_alarm_);
  reactor_->timers().cancel(&linger_alarm_);
  fail_queued();
  // Settlers wait for the drain: the acknowledgement of our close, or the peer's own close, may already be in
  // the completion queue.
  disconnect();
  if (!was_open) closing_.disconnect(false);
  post_marker();
  check_drained();
}

void EndpointState::abort(Code code) {
  if (phase_ == Phase::kGone) return;
  const Ref<EndpointState> self(this);
  const bool first = phase_ != Phase::kDraining;
  if (code == Code::kClosed) closing_.begin();
  break_off(code, 0);
  if (!first) {
    reason_ = code;
    fail_queued();
  }
  fail_posted(code, 0);
  fail_receivers();
  finish_settlers();
}

void EndpointState::post_marker() {
  if (queue_pair_ == nullptr || !send_.has_posting()) {
    marker_done_ = true;
    return;
  }
  Posting* posting = send_.take(Posting::Kind::kMarker);
  ibv_send_wr wr{};
  wr.wr_id = reinterpret_cast<std::uintptr_t>(static_cast<Completion*>(posting));
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(queue_pair_, &wr, &bad) != 0) {
    send_.give_back(posting);
    marker_done_ = true;
  }
}

void EndpointState::check_drained() {
  if (phase_ != Phase::kDraining || !marker_done_ || !receive_.drained()) return;
  finish_drain();
}

void EndpointState::finish_drain() {
  phase_ = Phase::kGone;
  fail_posted(reason_, reason_detail_);
  if (!receive_.has_message()) fail_receivers();
  finish_settlers();
  destroy_queue_pair();
  // Wait for the answer to the disconnect, because the request is repeated if it is lost.
  if (!lingering()) return leave();
  start_linger();
}

void EndpointState::leave() {
  if (std::exchange(left_, true)) return;
  reactor_->timers().cancel(&linger_alarm_);
  if (id_ != nullptr) rdma_destroy_id(std::exchange(id_, nullptr));
  reactor_->move_out(this);
}

void EndpointState::shut_down() {
  const Ref<EndpointState> self(this);
  if (Opener* opener = std::exchange(opener_, nullptr))
    opener->not_opened(error_for(Code::kClosed, During::kConnect, 0));
  abort(Code::kClosed);
  if (phase_ != Phase::kGone) {
    phase_ = Phase::kGone;
    finish_settlers();
    destroy_queue_pair();
  }
  leave();
}

// ---- keep-alive ----

// The device repeats a probe that is lost, but over shared memory it waits for a stopped process without
// end. The wait for an answer is thus bounded here. It is counted in several ticks: a program that was
// itself stopped, or did not poll, gets one late tick, and finds the answer before the next one.
void EndpointState::probe() {
  if (phase_ != Phase::kOpen) return;
  if (std::exchange(heard_, false)) {
    silent_ticks_ = 0;
    return set_probe_alarm(profile_.keep_alive);
  }
  const auto patience = std::max<std::chrono::milliseconds>(profile_.keep_alive, kLeastPatience);
  const auto tick = patience / kPatienceTicks;
  // A program that is slow to read its completions may have the answer among them.
  if (silent_ticks_ != 0 && shard_->passed - passed_ < shard_->entries) return set_probe_alarm(tick);
  passed_ = shard_->passed;
  if (silent_ticks_++ == 0) ++counters_.keep_alives;
  // A request that takes long holds the probe up. Each completion is an answer, also if there is no room for
  // the probe.
  const auto transfer = std::chrono::milliseconds(send_.largest() / kSlowestPerMillisecond);
  if (silent_ticks_ > kPatienceTicks + transfer / tick)
    return break_off(Code::kPeerGone, IBV_WC_RESP_TIMEOUT_ERR);
  set_probe_alarm(tick);
  if (!probing_) probing_ = post_control(Posting::Kind::kProbe);
}

void EndpointState::probe_answered() {
  probing_ = heard_ = false;
  silent_ticks_ = 0;
  set_probe_alarm(profile_.keep_alive);
}

void EndpointState::set_probe_alarm(std::chrono::milliseconds after) {
  reactor_->timers().cancel(&probe_alarm_);
  reactor_->timers().set(&probe_alarm_, Limit(after).at());
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
