#include "sim/overrun.h"

#include "sim/engine_call.h"
#include "sim/exchange.h"

namespace rrdma::sim {
namespace {

constexpr std::uint32_t kEntries = 2;
constexpr std::uint32_t kMessages = 5;

}  // namespace

Overrun::Overrun(Exchange& exchange, Host& host, Host& other)
    : exchange_(exchange), host_(host), queue_(kEntries, this) {
  transport::QpInit init;
  init.type = transport::QpType::kUd;
  init.pd = &host.pd;
  init.send_cq = init.receive_cq = &queue_;
  init.send_entries = kMessages;
  init.receive_entries = 1;
  init.signal_all = true;
  const wire::Qpn qpn = host.fresh_qpn();
  qp_ = &host.engine.create_qp(init, qpn);
  transport::QpAttributes attributes;
  using namespace transport;
  const auto go = [&](QpState state, std::uint32_t mask) {
    attributes.state = state;
    if (!host.engine.modify_qp(*qp_, attributes, kAttrState | mask, exchange.world().now()).ok()) {
      exchange.world().violate("a QP was not let from state to state");
    }
  };
  go(QpState::kInit, kAttrPKeyIndex | kAttrPort | kAttrQKey);
  go(QpState::kReadyToReceive, 0);
  go(QpState::kReadyToSend, kAttrSendPsn);
  handle_.pd = &host.pd;
  handle_.path = host.path_to(other, false, qpn, wire::Qpn(3));
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    SendRequest request;
    request.entry.wr_id = i;
    request.entry.datagram.handle = &handle_;
    request.entry.datagram.remote_qpn = 0xfffff;  // does not exist
    EngineCall guard;
    if (host.engine.post_send(*qp_, request, exchange.world().now()) != PostError::kNone) {
      exchange.world().violate("post_send to a fresh QP was refused");
    }
  }
  host.wake(exchange.world().now());
}

void Overrun::on_overflow(objects::CompletionQueue&) {
  EngineCall::Pause pause;
  ++overflows_;
  ++exchange_.met().overflow_events;
}

Overrun::~Overrun() {
  if (qp_ != nullptr) host_.engine.destroy_qp(*qp_);
}

std::string Overrun::finish() {
  host_.engine.destroy_qp(*qp_);
  qp_ = nullptr;
  if (overflows_ != 1 || !queue_.overflowed())
    return "a completion queue ran over, and its event came " + std::to_string(overflows_) + " times";
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    const objects::Completion* completion = queue_.peek();
    if (completion == nullptr || completion->wr_id != i)
      return "a completion queue that ran over lost what it had";
    queue_.pop();
  }
  return queue_.peek() == nullptr ? "" : "a completion queue holds more than it has room for";
}

}  // namespace rrdma::sim
