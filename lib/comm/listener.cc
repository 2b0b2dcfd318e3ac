// Listener, Incoming and the operations that wait for them.
#include "rrdma/comm/listener.h"

#include <cerrno>
#include <utility>

#include "lib/comm/address.h"
#include "lib/comm/endpoint_state.h"
#include "lib/comm/listener_state.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

IncomingState::~IncomingState() {
  if (id != nullptr) refuse({Refusal::kBusy, kProtocolVersion, 0, "the listener went away"});
}

void IncomingState::refuse(const RefusalNote& note) {
  if (id == nullptr) return;
  const std::string octets = emit_refusal(note);
  rdma_reject(id, octets.data(), static_cast<std::uint8_t>(octets.size()));
  rdma_destroy_id(std::exchange(id, nullptr));
}

ListenerState::~ListenerState() { stop(); }

Result<void> ListenerState::listen(std::string_view address, int backlog) {
  const auto fail = [&](Code code, const char* what) {
    return Error(code, During::kListen, errno).with_peer(std::string(address)).with_note(what);
  };
  auto parsed = parse_address(address, true);
  if (!parsed) return parsed.error();
  SocketAddress local;
  if (parsed->host.empty()) {
    // The IPv6 wildcard address accepts both families.
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<std::uint16_t>(std::stoi(parsed->port)));
    local = SocketAddress::of(reinterpret_cast<const sockaddr*>(&any));
  } else {
    auto found = detail::look_up(*parsed);
    if (!found) return found.error();
    local = *found;
  }
  if (rdma_create_id(reactor_->cm_channel(), &id_, static_cast<CmTarget*>(this), RDMA_PS_TCP) != 0) {
    id_ = nullptr;
    return fail(Code::kSystem, "no connection id");
  }
  const auto refused = [] { return errno == EADDRINUSE ? Code::kInUse : Code::kSystem; };
  if (rdma_bind_addr(id_, local.generic()) != 0) return fail(refused(), "this address cannot be bound");
  if (rdma_listen(id_, backlog) != 0) return fail(refused(), "this address cannot be listened at");
  most_pending_ = static_cast<std::size_t>(backlog);
  port_ = port_of(rdma_get_local_addr(id_));
  address_ = text_of(rdma_get_local_addr(id_));
  reactor_->move_in(this);
  return {};
}

void ListenerState::stop() {
  if (id_ == nullptr) return;
  pending_.clear();
  rdma_destroy_id(std::exchange(id_, nullptr));
  if (Link::linked()) reactor_->move_out(this);
  serve();
}

void ListenerState::handle_event(const rdma_cm_event& event) {
  if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST) return;
  auto incoming = std::make_unique<IncomingState>();
  incoming->id = event.id;
  event.id->context = nullptr;
  incoming->parameters = event.param.conn;
  incoming->parameters.private_data = nullptr;
  incoming->peer = text_of(rdma_get_peer_addr(event.id));
  const auto* octets = static_cast<const std::byte*>(event.param.conn.private_data);
  switch (
      parse_hello({octets, octets != nullptr ? event.param.conn.private_data_len : 0U}, incoming->hello)) {
    case HelloFault::kNone: break;
    case HelloFault::kVersion:
      return incoming->refuse({Refusal::kVersion, kProtocolVersion, kProtocolVersion,
                               "this end speaks version " + std::to_string(kProtocolVersion)});
    case HelloFault::kForeign:
    case HelloFault::kMalformed:
      return incoming->refuse(
          {Refusal::kVersion, kProtocolVersion, kProtocolVersion, "this end speaks rrdma::comm only"});
  }
  if (event.id->verbs != reactor_->verbs()) {
    return incoming->refuse(
        {Refusal::kBusy, kProtocolVersion, 0, "this end listens on " + reactor_->device().name});
  }
  if (pending_.size() >= most_pending_)
    return incoming->refuse({Refusal::kBusy, kProtocolVersion, 0, "too many wait already"});
  pending_.push_back(Incoming(std::move(incoming)));
  serve();
}

void ListenerState::serve() {
  if (waiters_.empty()) return;
  // begin() takes a request or waits again. The waiter may have held the last reference.
  const Ref<ListenerState> self(this);
  while ((!pending_.empty() || stopped()) && !waiters_.empty()) reactor_->begin_again(waiters_.pop_front());
}

Incoming ListenerState::take() {
  if (pending_.empty()) return {};
  Incoming first = std::move(pending_.front());
  pending_.pop_front();
  return first;
}

}  // namespace detail

// ---- Incoming ----

Incoming::Incoming() = default;
Incoming::Incoming(std::unique_ptr<detail::IncomingState> state) : state_(std::move(state)) {}
Incoming::Incoming(Incoming&&) noexcept = default;
Incoming& Incoming::operator=(Incoming&&) noexcept = default;
Incoming::~Incoming() = default;

const detail::IncomingState& Incoming::checked() const {
  if (!state_) detail::broken_contract("an operation on an empty Incoming");
  return *state_;
}
std::string_view Incoming::peer() const { return checked().peer; }
std::span<const std::byte> Incoming::hello() const {
  return std::as_bytes(std::span(checked().hello.application));
}
std::size_t Incoming::message_limit() const { return checked().hello.message_limit; }

Accepting Incoming::accept(Context& context, const Profile& profile, Limit limit) {
  Accepting accepting(context.reactor(), profile, std::move(limit));
  accepting.incoming_ = std::move(*this);
  return accepting;
}

void Incoming::refuse(std::uint8_t reason, std::string_view text) {
  if (!state_) return;
  state_->refuse({detail::Refusal::kApplication, detail::kProtocolVersion, reason, std::string(text)});
  state_.reset();
}

// ---- Arriving ----

Arriving::Arriving(const detail::Ref<detail::ListenerState>& listener, Limit limit)
    : Operation(listener->reactor(), During::kAccept, std::move(limit)), listener_(listener) {}
Arriving::Arriving(Arriving&&) noexcept = default;
Arriving::~Arriving() { abandon(); }

void Arriving::begin() {
  if (listener_->stopped()) return fail(Code::kClosed);
  incoming_ = listener_->take();
  if (incoming_) return complete();
  listener_->wait(this);
}
void Arriving::withdraw() noexcept { leave_list(); }
Result<Incoming> Arriving::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return std::move(incoming_);
}

// ---- Accepting ----

Accepting::Accepting(detail::Ref<detail::Reactor> reactor, const Profile& profile, Limit limit)
    : Operation(std::move(reactor), During::kAccept, std::move(limit)),
      profile_(profile),
      hello_(reinterpret_cast<const char*>(profile.hello.data()), profile.hello.size()) {
  profile_.hello = {};
}
Accepting::Accepting(Accepting&&) noexcept = default;
Accepting::~Accepting() {
  abandon();
  if (endpoint_) endpoint_->handle_gone();
}

void Accepting::begin() {
  if (hello_.size() > kMaxHelloAnswer)
    return fail(error_for(Code::kTooLarge, 0).with_note("hello is larger than kMaxHelloAnswer"));
  if (!incoming_) {
    if (!listener_) return fail(Code::kInvalid);
    if (listener_->stopped()) return fail(Code::kClosed);
    incoming_ = listener_->take();
    if (!incoming_) return listener_->wait(this);
  }
  admit();
}

void Accepting::admit() {
  detail::IncomingState& request = *incoming_.state_;
  rdma_cm_id* id = std::exchange(request.id, nullptr);
  // Direct the events of this id to the channel of the accepting context.
  if (id->channel != reactor()->cm_channel() && rdma_migrate_id(id, reactor()->cm_channel()) != 0) {
    const int why = errno;
    rdma_reject(id, nullptr, 0);
    rdma_destroy_id(id);
    incoming_ = Incoming();
    return fail(Code::kSystem, why);
  }
  endpoint_ = detail::Ref<detail::EndpointState>(new detail::EndpointState(reactor(), profile_, hello_));
  const Incoming taken = std::move(incoming_);
  endpoint_->accept(this, id, taken.state_->hello, taken.state_->parameters);
}

void Accepting::opened() { complete(); }

void Accepting::not_opened(Error error) {
  endpoint_.reset();
  // The caller of a listener did not ask for this peer, so continue with the next one.
  if (listener_ && error.code() != Code::kClosed) return begin();
  fail(std::move(error));
}

void Accepting::withdraw() noexcept {
  leave_list();
  if (endpoint_) std::exchange(endpoint_, {})->forsake();
}

Error Accepting::error_for(Code code, int detail) const {
  Error error(code, During::kAccept, detail);
  if (!listener_) return error;
  return std::move(error).with_peer(listener_->address());
}

Result<Endpoint> Accepting::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return Endpoint(std::move(endpoint_));
}

// ---- Listener ----

Listener::Listener() = default;
Listener::Listener(detail::Ref<detail::ListenerState> state) : state_(std::move(state)) {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&& other) noexcept {
  if (this != &other) {
    if (state_) state_->stop();
    state_ = std::move(other.state_);
  }
  return *this;
}
Listener::~Listener() {
  if (state_) state_->stop();
}

Accepting Listener::accept(const Profile& profile, Limit limit) {
  Accepting accepting(state_checked()->reactor(), profile, std::move(limit));
  accepting.listener_ = state_;
  return accepting;
}
Arriving Listener::next(Limit limit) { return Arriving(state_checked(), std::move(limit)); }
std::uint16_t Listener::port() const { return state_checked()->port(); }
std::string_view Listener::address() const { return state_checked()->address(); }

}  // namespace v0
}  // namespace rrdma::comm
