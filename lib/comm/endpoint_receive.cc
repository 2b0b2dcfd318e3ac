// EndpointState, receive side: from a completed receive to a Message, and back to the receive queue.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "lib/comm/endpoint_state.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

void EndpointState::receive_arrived(Completion* completion, const ibv_wc& wc) {
  auto* slot = static_cast<ReceiveSlot*>(completion);
  EndpointState* endpoint = slot->endpoint;
  const Ref<EndpointState> self(endpoint);
  endpoint->receive_.count_completed();
  if (wc.status == IBV_WC_SUCCESS) [[likely]] {
    endpoint->take_message(slot, wc);
  } else if (wc.status == IBV_WC_LOC_QP_OP_ERR) {
    // The status that rxe reports for a message longer than the receive buffer.
    endpoint->break_off(Code::kProtocol, wc.status);
  } else {
    endpoint->break_off(wc);
  }
  if (endpoint->phase_ == Phase::kDraining) [[unlikely]]
    endpoint->check_drained();
}

void EndpointState::take_message(ReceiveSlot* slot, const ibv_wc& wc) {
  heard_ = true;
  // The peer has used a credit that it was never granted.
  if (!credits_.peer_used_one()) return break_off(Code::kProtocol, 0);
  if (credits_.peer_starves()) reactor_->settle_later(this);
  slot->has_immediate = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  slot->counts = true;
  slot->loans = 1;
  if (slot->has_immediate) {
    slot->immediate = ntohl(wc.imm_data);
    slot->length = 0;
    return deliver(slot);
  }
  MessageHeader header{};
  if (wc.byte_len >= sizeof(header)) std::memcpy(&header, slot->data - sizeof(header), sizeof(header));
  const bool sound = wc.byte_len >= sizeof(header) && header.length == wc.byte_len - sizeof(header) &&
                     header.reserved == 0 && credits_.accept(header.credits, peer_hello_.receive_depth);
  if (!sound) return break_off(Code::kProtocol, 0);
  if (header.credits != 0 && (!send_.queued().empty() || credits_.owes_for_messages() || closing_.begun()))
    reactor_->settle_later(this);
  slot->length = header.length;
  switch (static_cast<MessageKind>(header.kind)) {
    case MessageKind::kData: return deliver(slot);
    case MessageKind::kCredit:
      ++counters_.credit_messages_received;
      slot->counts = false;
      return release(slot);
    case MessageKind::kClose:
      closing_.hear_close();
      slot->counts = false;
      fail_queued();
      if (!receive_.has_message()) fail_receivers();
      return release(slot);
  }
  break_off(Code::kProtocol, 0);
}

void EndpointState::deliver(ReceiveSlot* slot) {
  if (closing_.peer_closed()) return break_off(Code::kProtocol, 0);
  receive_.number(slot);
  ++counters_.messages_received;
  counters_.octets_received += slot->length;
  if (Receiving* receiving = receive_.readers().pop_front()) {
    receiving->message_ = Message(Ref<EndpointState>(this), slot);
    receiving->complete();
  } else {
    receive_.keep(slot);
  }
}

// Returns a message whose receiver was destroyed before seeing it. The next receiver gets it, in the original
// order.
void EndpointState::put_back(ReceiveSlot* slot) {
  if (Receiving* receiving = receive_.readers().pop_front()) {
    receiving->message_ = Message(Ref<EndpointState>(this), slot);
    return receiving->complete();
  }
  receive_.put_back(slot);
}

void EndpointState::begin(Receiving* receiving) {
  if (ReceiveSlot* slot = receive_.take_message()) {
    receiving->message_ = Message(Ref<EndpointState>(this), slot);
    return receiving->complete();
  }
  if (phase_ == Phase::kGone || closing_.either()) return receiving->fail(end_of_messages(During::kReceive));
  receive_.readers().push_back(receiving);
}

Message EndpointState::try_receive() {
  ReceiveSlot* slot = receive_.take_message();
  return slot != nullptr ? Message(Ref<EndpointState>(this), slot) : Message();
}

void EndpointState::release(ReceiveSlot* slot) {
  if (phase_ != Phase::kOpen) return;
  receive_.release(slot);
  reactor_->settle_later(this);
}

bool EndpointState::post_released() {
  ReceiveChain chain;
  while (receive_.has_released()) {
    receive_.fill(chain);
    ibv_recv_wr* bad = nullptr;
    if (const int status = ibv_post_recv(queue_pair_, chain.requests.data(), &bad); status != 0) {
      for (const ibv_recv_wr* wr = chain.requests.data(); wr != bad; wr = wr->next) receive_.count_posted(1);
      break_off(Code::kSystem, status);
      return false;
    }
    receive_.count_posted(chain.count);
    credits_.owe(chain.count, chain.counting);
  }
  return true;
}

void EndpointState::fail_receivers() {
  while (Receiving* receiving = receive_.readers().pop_front())
    receiving->fail(end_of_messages(During::kReceive));
}

}  // namespace detail

Message::Message(detail::Ref<detail::EndpointState> endpoint, detail::ReceiveSlot* slot)
    : endpoint_(std::move(endpoint)), slot_(slot) {}

void Message::release() noexcept {
  if (slot_ == nullptr) return;
  if (--slot_->loans == 0) endpoint_->release(slot_);
  slot_ = nullptr;
  endpoint_.reset();
}

Message Message::share() const {
  if (slot_ == nullptr) return {};
  ++slot_->loans;
  return {endpoint_, slot_};
}

std::span<std::byte> Message::bytes() {
  if (slot_ == nullptr) return {};
  return {slot_->data, slot_->length};
}

std::optional<std::uint32_t> Message::immediate() const {
  if (slot_ == nullptr || !slot_->has_immediate) return std::nullopt;
  return slot_->immediate;
}

Receiving::Receiving(const detail::Ref<detail::EndpointState>& endpoint, Limit limit)
    : Operation(endpoint->reactor(), During::kReceive, std::move(limit)), endpoint_(endpoint) {}

Receiving::~Receiving() {
  abandon();
  if (message_) endpoint_->put_back(std::exchange(message_.slot_, nullptr));
}

void Receiving::begin() { endpoint_->begin(this); }
void Receiving::withdraw() noexcept { leave_list(); }
Error Receiving::error_for(Code code, int detail) const {
  return endpoint_->error_for(code, During::kReceive, detail);
}

Result<Message> Receiving::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return std::move(message_);
}

}  // namespace v0
}  // namespace rrdma::comm
