// Datagram: the unreliable queue pair, sending, receiving and shutdown.
#include "rrdma/comm/datagram.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/comm/datagram_state.h"
#include "rrdma/comm/context.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {
namespace {

constexpr std::size_t kRoutingHeader = 40;  // before the payload of each received packet
constexpr int kBacklog = 128;
constexpr std::uint8_t kPort = 1;

void clear_port(SocketAddress& address) {
  // sin_port has the same offset in both families.
  reinterpret_cast<sockaddr_in*>(address.generic())->sin_port = 0;
}

}  // namespace

DatagramState::~DatagramState() {
  stopped_ = true;
  if (id_ != nullptr) {
    if (id_->qp != nullptr) rdma_destroy_qp(id_);
    rdma_destroy_id(id_);
  }
  if (listener_ != nullptr) rdma_destroy_id(listener_);
  if (shard_ != nullptr) reactor_->release_completions(shard_, shard_entries_);
}

Result<void> DatagramState::open(std::string_view address) {
  const auto fail = [&](Code code, const char* what) {
    return Error(code, During::kBind, errno).with_peer(std::string(address)).with_note(what);
  };
  auto parsed = parse_address(address, true);
  if (!parsed) return parsed.error();
  if (parsed->host.empty())
    parsed->host = reactor_->device().addresses.empty() ? "" : reactor_->device().addresses.front();
  auto local = look_up(*parsed);
  if (!local) return local.error();
  for (rdma_cm_id** id : {&listener_, &id_}) {
    if (rdma_create_id(reactor_->cm_channel(), id, static_cast<CmTarget*>(this), RDMA_PS_UDP) != 0) {
      *id = nullptr;
      return fail(Code::kSystem, "no connection id");
    }
  }
  SocketAddress any_port = *local;
  clear_port(any_port);
  if (rdma_bind_addr(listener_, local->generic()) != 0 || rdma_bind_addr(id_, any_port.generic()) != 0)
    return fail(errno == EADDRINUSE ? Code::kInUse : Code::kBadAddress, "this address cannot be bound");
  if (id_->verbs != reactor_->verbs())
    return fail(Code::kBadAddress, "it is not an address of this context's device");
  if (auto made = make_queues(); !made) return made.error();
  if (rdma_listen(listener_, kBacklog) != 0) return fail(Code::kSystem, "this address cannot be listened at");
  address_ = text_of(rdma_get_local_addr(listener_));
  reactor_->move_in(this);
  settle();
  return {};
}

Result<void> DatagramState::make_queues() {
  auto shard = reactor_->reserve_completions(profile_.send_depth + profile_.receive_depth);
  if (!shard) return shard.error();
  shard_ = *shard;
  shard_entries_ = profile_.send_depth + profile_.receive_depth;
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = shard_->queue;
  attributes.qp_type = IBV_QPT_UD;
  attributes.sq_sig_all = 1;
  attributes.cap.max_send_wr = profile_.send_depth;
  attributes.cap.max_recv_wr = profile_.receive_depth;
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  if (rdma_create_qp(id_, reactor_->domain(), &attributes) != 0) {
    return Error(Code::kSystem, During::kBind, errno).with_note("no queue pair for datagrams");
  }
  ibv_qp_attr state{};
  ibv_qp_init_attr ignored{};
  if (ibv_query_qp(id_->qp, &state, IBV_QP_QKEY, &ignored) == 0) queue_key_ = state.qkey;
  const std::size_t stride = 64 + (message_limit() + 63) / 64 * 64;
  auto ring = reactor_->pool()->take(stride * profile_.receive_depth, Pages::kOrdinary);
  if (!ring) return ring.error();
  ring_ = std::move(*ring);
  slots_ = std::make_unique<DatagramSlot[]>(profile_.receive_depth);
  for (std::uint32_t i = 0; i < profile_.receive_depth; ++i) {
    slots_[i].arrive = &DatagramState::receive_arrived;
    slots_[i].state = this;
    slots_[i].data = ring_.data() + i * stride;
    released_.push_back(&slots_[i]);
  }
  postings_ = std::make_unique<DatagramPosting[]>(profile_.send_depth);
  for (std::uint32_t i = 0; i < profile_.send_depth; ++i) {
    postings_[i].arrive = &DatagramState::send_arrived;
    postings_[i].state = this;
    postings_[i].next_free = std::exchange(free_postings_, &postings_[i]);
  }
  return {};
}

void DatagramState::settle() {
  while (!stopped_) {
    DatagramSlot* slot = released_.pop_front();
    if (slot == nullptr) break;
    ibv_sge part{reinterpret_cast<std::uintptr_t>(slot->data),
                 static_cast<std::uint32_t>(kRoutingHeader + message_limit()),
                 PoolState::chunk_of(ring_)->lkey};
    ibv_recv_wr wr{reinterpret_cast<std::uintptr_t>(static_cast<Completion*>(slot)), nullptr, &part, 1};
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(id_->qp, &wr, &bad) == 0) ++posted_receives_;
  }
  while (!queued_.empty() && free_postings_ != nullptr && !stopped_) post(queued_.pop_front());
}

// Moves the queue pair to the error state. The object is released once all posted requests have completed.
void DatagramState::stop() {
  if (std::exchange(stopped_, true)) return;
  const Ref<DatagramState> self(this);
  fail_all(Code::kClosed);
  joining_.clear();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  if (id_->qp != nullptr) ibv_modify_qp(id_->qp, &attributes, IBV_QP_STATE);
  check_drained();
}

// The context no longer polls, so flushed completions will not be read.
void DatagramState::shut_down() {
  const Ref<DatagramState> self(this);
  stop();
  posted_receives_ = posted_sends_ = 0;
  check_drained();
}

void DatagramState::check_drained() {
  if (!stopped_ || posted_receives_ != 0 || posted_sends_ != 0 || std::exchange(left_, true)) return;
  reactor_->move_out(this);
}

void DatagramState::fail_all(Code code) {
  while (PacketSending* sending = queued_.pop_front()) sending->fail(code);
  while (PacketReceiving* receiving = receivers_.pop_front()) receiving->fail(code);
  while (Operation* operation = others_.pop_front()) operation->fail(code);
  for (std::uint32_t i = 0; i < profile_.send_depth; ++i) {
    PacketSending* waiter = std::exchange(postings_[i].waiter, nullptr);
    if (waiter == nullptr) continue;
    waiter->posting_ = nullptr;
    waiter->fail(code);
  }
}

void DatagramState::handle_event(const rdma_cm_event& event) {
  const Ref<DatagramState> self(this);
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    // A peer asks for our queue pair. Answer with its number; keep no state.
    event.id->context = nullptr;
    rdma_conn_param parameters{};
    parameters.qp_num = id_->qp->qp_num;
    if (!stopped_) rdma_accept(event.id, &parameters);
    rdma_destroy_id(event.id);
  } else if (event.event == RDMA_CM_EVENT_MULTICAST_JOIN || event.event == RDMA_CM_EVENT_MULTICAST_ERROR) {
    if (event.param.ud.private_data != nullptr) {
      static_cast<MembershipState*>(const_cast<void*>(event.param.ud.private_data))->joined(event);
    }
  } else if (event.event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
    stop();
  }
}

// ---- sending ----

void DatagramState::begin(PacketSending* sending) {
  if (stopped_) return sending->fail(Code::kClosed);
  if (!sending->peer_) return sending->fail(Code::kInvalid);
  if (sending->buffer_.size() > message_limit()) {
    Error error(Code::kTooLarge, During::kSend);
    return sending->fail(std::move(error).with_note(std::to_string(sending->buffer_.size()) +
                                                    " bytes, a packet takes " +
                                                    std::to_string(message_limit())));
  }
  if (free_postings_ == nullptr || !queued_.empty()) {
    queued_.push_back(sending);
    return;
  }
  post(sending);
}

void DatagramState::post(PacketSending* sending) {
  DatagramPosting* posting = free_postings_;
  ibv_sge part{reinterpret_cast<std::uintptr_t>(sending->buffer_.data()),
               static_cast<std::uint32_t>(sending->buffer_.size()),
               sending->buffer_ ? PoolState::chunk_of(sending->buffer_)->lkey : 0};
  ibv_send_wr wr{};
  wr.wr_id = reinterpret_cast<std::uintptr_t>(static_cast<Completion*>(posting));
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &part;
  wr.num_sge = part.length != 0 ? 1 : 0;
  wr.wr.ud = {sending->peer_.handle_->handle(), sending->peer_.queue_number_, sending->peer_.queue_key_};
  ibv_send_wr* bad = nullptr;
  if (const int status = ibv_post_send(id_->qp, &wr, &bad); status != 0)
    return sending->fail(Code::kSystem, status);
  free_postings_ = posting->next_free;
  ++posted_sends_;
  posting->buffer = std::move(sending->buffer_);
  posting->peer = sending->peer_;
  posting->waiter = sending;
  sending->posting_ = posting;
}

void DatagramState::withdraw(PacketSending* sending) noexcept {
  if (sending->posting_ != nullptr) std::exchange(sending->posting_, nullptr)->waiter = nullptr;
  static_cast<Link*>(sending)->unlink();
}

void DatagramState::send_arrived(Completion* completion, const ibv_wc& wc) {
  auto* posting = static_cast<DatagramPosting*>(completion);
  const Ref<DatagramState> self(posting->state);
  --self->posted_sends_;
  Buffer buffer = std::move(posting->buffer);
  posting->peer = Peer();
  PacketSending* waiter = std::exchange(posting->waiter, nullptr);
  posting->next_free = std::exchange(self->free_postings_, posting);
  if (waiter != nullptr) {
    waiter->posting_ = nullptr;
    waiter->buffer_ = std::move(buffer);
    if (wc.status == IBV_WC_SUCCESS) {
      waiter->complete();
    } else {
      waiter->fail(wc.status == IBV_WC_WR_FLUSH_ERR ? Code::kClosed : Code::kLocalAccess, wc.status);
    }
  }
  if (!self->queued_.empty()) self->reactor_->settle_later(self.raw());
  self->check_drained();
}

// ---- receiving ----

void DatagramState::receive_arrived(Completion* completion, const ibv_wc& wc) {
  auto* slot = static_cast<DatagramSlot*>(completion);
  const Ref<DatagramState> self(slot->state);
  --self->posted_receives_;
  if (wc.status != IBV_WC_SUCCESS || wc.byte_len < kRoutingHeader || self->stopped_) {
    if (!self->stopped_) self->release(slot);
    return self->check_drained();
  }
  slot->wc = wc;
  self->put_back(slot);
}

void DatagramState::put_back(DatagramSlot* slot) {
  if (PacketReceiving* receiving = receivers_.pop_front()) {
    receiving->packet_ = Packet(Ref<DatagramState>(this), slot);
    return receiving->complete();
  }
  inbound_.push_back(slot);
}

void DatagramState::begin(PacketReceiving* receiving) {
  if (DatagramSlot* slot = inbound_.pop_front()) {
    receiving->packet_ = Packet(Ref<DatagramState>(this), slot);
    return receiving->complete();
  }
  if (stopped_) return receiving->fail(Code::kClosed);
  receivers_.push_back(receiving);
}

void DatagramState::release(DatagramSlot* slot) {
  if (stopped_) return;
  released_.push_back(slot);
  reactor_->settle_later(this);
}

Result<Peer> DatagramState::peer_at(const ibv_ah_attr& attributes, std::uint32_t queue_number,
                                    std::uint32_t queue_key) {
  ibv_ah_attr copy = attributes;
  ibv_ah* handle = ibv_create_ah(reactor_->domain(), &copy);
  if (handle == nullptr) return Error(Code::kSystem, During::kSend, errno).with_note("no address handle");
  Peer peer;
  peer.handle_ = Ref<AddressHandle>(new AddressHandle(reactor_, handle));
  peer.queue_number_ = queue_number;
  peer.queue_key_ = queue_key;
  return peer;
}

Result<Peer> DatagramState::sender_of(const DatagramSlot& slot) {
  ibv_wc wc = slot.wc;
  ibv_ah_attr attributes{};
  const std::uint8_t port = id_ != nullptr && id_->port_num != 0 ? id_->port_num : kPort;
  if (ibv_init_ah_from_wc(reactor_->verbs(), port, &wc, reinterpret_cast<ibv_grh*>(slot.data), &attributes) !=
      0) {
    return Error(Code::kSystem, During::kReceive, errno)
        .with_note("the packet does not say where it came from");
  }
  return peer_at(attributes, wc.src_qp, queue_key_);
}

}  // namespace detail

// ---- public classes ----

Packet::Packet(detail::Ref<detail::DatagramState> state, detail::DatagramSlot* slot)
    : state_(std::move(state)), slot_(slot) {}
void Packet::release() noexcept {
  if (slot_ == nullptr) return;
  state_->release(std::exchange(slot_, nullptr));
  state_.reset();
}
std::span<const std::byte> Packet::bytes() const {
  if (slot_ == nullptr) return {};
  return {slot_->data + detail::kRoutingHeader, slot_->wc.byte_len - detail::kRoutingHeader};
}
Result<Peer> Packet::sender() const {
  if (slot_ == nullptr) return Error(Code::kInvalid, During::kReceive);
  return state_->sender_of(*slot_);
}

PacketSending::PacketSending(const detail::Ref<detail::DatagramState>& state, const Peer& peer, Buffer buffer,
                             Limit limit)
    : Operation(state->reactor(), During::kSend, std::move(limit)),
      state_(state),
      peer_(peer),
      buffer_(std::move(buffer)) {}
PacketSending::~PacketSending() { abandon(); }
void PacketSending::begin() { state_->begin(this); }
void PacketSending::withdraw() noexcept { state_->withdraw(this); }
Result<Buffer> PacketSending::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return std::move(buffer_);
}

PacketReceiving::PacketReceiving(const detail::Ref<detail::DatagramState>& state, Limit limit)
    : Operation(state->reactor(), During::kReceive, std::move(limit)), state_(state) {}
PacketReceiving::~PacketReceiving() {
  abandon();
  if (packet_) state_->put_back(std::exchange(packet_.slot_, nullptr));
}
void PacketReceiving::begin() { state_->begin(this); }
void PacketReceiving::withdraw() noexcept { leave_list(); }
Result<Packet> PacketReceiving::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return std::move(packet_);
}

Datagram::Datagram(detail::Ref<detail::DatagramState> state) : state_(std::move(state)) {}
Datagram::Datagram(Datagram&&) noexcept = default;
Datagram& Datagram::operator=(Datagram&& other) noexcept {
  if (this != &other) {
    if (state_) state_->stop();
    state_ = std::move(other.state_);
  }
  return *this;
}
Datagram::~Datagram() {
  if (state_) state_->stop();
}

Result<Datagram> Datagram::open(Context& context, std::string_view address, const DatagramProfile& profile) {
  detail::Ref<detail::DatagramState> state(new detail::DatagramState(context.reactor(), profile));
  if (auto opened = state->open(address); !opened) return opened.error();
  return Datagram(std::move(state));
}

PacketSending Datagram::send(const Peer& peer, Buffer message, Limit limit) {
  return {state_checked(), peer, std::move(message), std::move(limit)};
}
PacketReceiving Datagram::receive(Limit limit) { return {state_checked(), std::move(limit)}; }
Resolving Datagram::resolve(std::string_view address, Limit limit) {
  return {state_checked(), std::string(address), std::move(limit)};
}
Joining Datagram::join(std::string_view group, Limit limit) {
  return {state_checked(), std::string(group), std::move(limit)};
}
std::size_t Datagram::message_limit() const { return state_checked()->message_limit(); }
std::string_view Datagram::address() const { return state_checked()->address(); }

}  // namespace v0
}  // namespace rrdma::comm
