#include "lib/rpc/server_connection.h"

#include <algorithm>
#include <exception>
#include <limits>

#include "lib/rpc/patience.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {
namespace {
constexpr std::size_t kLateHandlers = 16;
// The interval between looks for room while unread stream items take it.
constexpr std::chrono::milliseconds kRoomInterval{5};
}  // namespace

ServerConnection::ServerConnection(ServerState& server, comm::Endpoint endpoint, const ClientHello& hello,
                                   std::uint8_t version, Expected expected, Unproven& unproven)
    : server_(&server),
      hello_(hello),
      expected_(std::move(expected)),
      unproven_(&unproven),
      line_(server.context(), std::move(endpoint), version),
      memory_(server.context().pool().quota(server.options().connection_memory)) {
  line_.received().limit(server.options().connection_memory, &memory_);
  line_.transfers().limit(server.options().connection_memory);
  server.moved_in(this);
}

ServerConnection::~ServerConnection() {
  if (running_ != 0) abort();
  unlink();
  server_->moved_out();
}

comm::Task<comm::Result<comm::Message>> ServerConnection::receive_first() {
  auto first = co_await comm::when_any(line_.endpoint().receive(), patience(server_->context()));
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  co_return comm::Error(comm::Code::kDeadline, comm::During::kReceive);
}

comm::Task<void> ServerConnection::run() {
  // A server that is shutting down has closed it already.
  const std::string peer(line_.endpoint() ? line_.endpoint().peer() : std::string_view());
  for (;;) {
    if (line_.crowded()) {
      const bool sent = co_await line_.until_sent();
      if (!sent) break;
    }
    if (!line_.endpoint()) break;
    comm::Message message = line_.endpoint().try_receive();
    if (!message) {
      comm::Result<comm::Message> received = comm::Error();
      if (expected_) {
        received = co_await receive_first();
      } else {
        received = co_await line_.endpoint().receive();
      }
      if (!received) break;
      message = std::move(*received);
    }
    if (!handle(message)) {
      ++server_->counts().broken;
      server_->log(LogLevel::kWarning, "broken", peer,
                   unproven() ? "the client did not show the secret"
                              : "a message was forged, or the client broke the protocol");
      abort();
      break;
    }
    if (leaving_) leave();
  }
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] != nullptr) slots_[slot]->cancel(Status(Code::kCancelled, "the connection is over"));
  }
  co_await handlers_.join();
  server_->log(LogLevel::kInfo, "ended", peer);
}

void ServerConnection::go_away() {
  if (std::exchange(going_away_, true)) return;
  announce();
}

void ServerConnection::announce() {
  // Before the client's KEY nothing can be encrypted; handle_first() announces it then.
  if (expected_.handshake) return;
  Frame frame;
  frame.kind = Kind::kGoAway;
  line_.post(frame);
}

void ServerConnection::abort() {
  unproven_->settle();
  line_.endpoint().abort();
}
void ServerConnection::leave() {
  leaving_ = true;
  if (line_.offers().empty() && !expected_.handshake) line_.close();
}

ServerCall* ServerConnection::find(std::uint32_t id) {
  const std::uint32_t slot = slot_of(id);
  if (slot >= slots_.size() || slots_[slot] == nullptr || slots_[slot]->id_ != id) return nullptr;
  return slots_[slot];
}

bool ServerConnection::handle(comm::Message& message) {
  const auto frame = parse_frame(line_.open(message));
  if (!frame) return false;
  arrived_ = ticks_now();
  line_.heard(frame->kind == Kind::kPack);
  if (frame->kind != Kind::kPack) return handle(*frame, message);
  // The frames behind KEY in one message would be plain, and taken for encrypted ones.
  if (!line_.packs() || expected_.handshake) return false;
  for (auto rest = frame->body; !rest.empty();) {
    const auto packed = parse_frame(next_packed(rest));
    if (!packed || !handle(*packed, message)) return false;
  }
  return true;
}

bool ServerConnection::handle_first(const Frame& frame) {
  if (expected_.handshake) {
    if (frame.kind != Kind::kKey) return false;
    const auto keys = expected_.handshake->server_keys(frame.body);
    if (!keys) return false;
    expected_.handshake.reset();
    line_.encrypt(*keys);
    if (going_away_) announce();
  } else {
    if (frame.kind != Kind::kProof || !same(*expected_.proof, frame.body)) return false;
    expected_.proof.reset();
  }
  unproven_->settle();
  return true;
}

bool ServerConnection::handle(const Frame& frame, const comm::Message& message) {
  if (expected_) return handle_first(frame);
  if (!line_.admits(frame) || (line_.encrypted() && frame.has(flag::kLent))) return false;
  // A frame for a call that has ended crossed with its reply.
  ServerCall* call = frame.kind == Kind::kCall ? nullptr : find(frame.call);
  switch (frame.kind) {
    case Kind::kCall: return handle_call(frame, message);
    case Kind::kItem: return line_.deliver(call != nullptr ? call->inbound_.raw() : nullptr, frame, message);
    case Kind::kTaken: return line_.taken(frame);
    case Kind::kWindow: return call == nullptr || !call->outbound_ || call->outbound_->widen(frame.window);
    case Kind::kCancel:
      if (call != nullptr) call->cancel(Status(Code::kCancelled, "the caller took it back"));
      return true;
    default: return false;
  }
}

Status ServerConnection::admit(const Frame& frame, Served*& served) {
  if (going_away_) return {Code::kUnavailable, "the server is going away"};
  // Handlers of cancelled calls run until they notice the cancellation. They have a separate bound.
  if (running_ >= 2 * std::size_t{server_->options().max_calls} + kLateHandlers)
    return {Code::kResourceExhausted, "too many calls of this connection are running"};
  served = server_->find(frame.method);
  if (served == nullptr) return {Code::kUnimplemented, "the server has no such method"};
  const Method& method = served->handler.method;
  if (frame.schema != 0 && method.schema != 0 && frame.schema != method.schema) {
    return {Code::kUnimplemented,
            method.path() + " has another form or version here: build both ends from the same definition"};
  }
  const bool offered = frame.has(flag::kOffered);
  if (offered && !frame.body.empty()) return {Code::kInvalidArgument, "an argument comes once"};
  const std::size_t size = offered ? line_.plain_size(frame.offered) : frame.body.size();
  // A client of an earlier version does not compare an argument in one frame with the limit.
  const std::size_t most = server_->options().max_argument;
  if (size > (offered ? most : std::max(most, kFrameLimit))) {
    return {Code::kResourceExhausted,
            "the argument has " + std::to_string(size) + " bytes, the server takes " + std::to_string(most)};
  }
  return {};
}

namespace {
// The memory of received metadata, which may be many times as large as its encoded form.
std::size_t memory_of(const Metadata& metadata) {
  std::size_t octets = 2 * metadata.size() * sizeof(Metadata::Pair);  // a vector grows by doubling
  for (const auto& [name, value] : metadata) octets += name.size() + value.size();
  return octets;
}
}  // namespace

bool ServerConnection::handle_call(const Frame& frame, const comm::Message& message) {
  const std::uint32_t slot = slot_of(frame.call);
  // The call id is in use or beyond the agreed limit.
  if (slot >= server_->options().max_calls) return false;
  if (slot >= slots_.size()) slots_.resize(slot + 1);
  if (slots_[slot] != nullptr) return false;
  Metadata metadata;
  if (!frame.metadata.empty() && !parse_metadata(frame.metadata, metadata)) return false;
  Served* served = nullptr;
  Status status = admit(frame, served);
  const std::size_t held = memory_of(metadata);
  if (status.ok() && !line_.received().take(held))
    status = Status(Code::kResourceExhausted, "the connection has no memory for the metadata");
  if (!status.ok()) {
    refuse(frame.call, std::move(status));
    return true;
  }
  ServerCall* call = begin(frame, message, *served);
  if (held != 0) call->metadata_ = std::move(metadata);
  call->metadata_held_ = held;
  if (server_->options().spans)
    call->span_ = std::make_unique<OpenSpan>(Span::Kind::kServer, call->metadata_);
  start(call);
  return true;
}

void ServerConnection::refuse(std::uint32_t call, Status status) {
  Frame frame;
  frame.kind = Kind::kReply;
  frame.flags = flag::kRefused;
  frame.call = call;
  frame.status = static_cast<std::uint8_t>(status.code());
  frame.message = status.message();
  line_.post(frame);
}

ServerCall* ServerConnection::begin(const Frame& frame, const comm::Message& message, Served& served) {
  if (free_ == nullptr) {
    calls_.push_back(std::make_unique<ServerCall>(server_->context(), *this));
    free_ = calls_.back().get();
  }
  ServerCall* call = std::exchange(free_, free_->next_free_);
  call->id_ = frame.call;
  call->method_ = &served.handler.method;
  call->served_ = &served;
  call->begun_ = arrived_;
  if (frame.timeout != 0) {
    const std::chrono::nanoseconds patience(
        std::min<std::uint64_t>(frame.timeout, std::numeric_limits<std::int64_t>::max()));
    const comm::Clock::time_point now = comm::Clock::now();
    // A duration beyond the range of the clock means no limit.
    if (patience < comm::Clock::time_point::max() - now) {
      call->deadline_ = now + patience;
      call->alarm_.set(call->deadline_);
    }
  }
  if (frame.has(flag::kOffered)) {
    call->offered_ = {frame.offered.address, frame.offered.key, frame.offered.length};
    call->seal_ = frame.offered.seal;
  }
  if (frame.has(flag::kLent)) call->lent_ = {frame.lent.address, frame.lent.key, frame.lent.length};
  const Shape shape = served.handler.method.shape;
  if (shape == Shape::kClientStream || shape == Shape::kBidirectional)
    call->inbound_ = comm::detail::Ref<Inbound>(
        new Inbound(line_, call->id_, server_->options().window, server_->options().max_argument));
  if (shape == Shape::kServerStream || shape == Shape::kBidirectional)
    call->outbound_ = comm::detail::Ref<Outbound>(new Outbound(line_, call->id_, frame.window));
  const auto offset = static_cast<std::size_t>(frame.body.data() - message.bytes().data());
  call->argument_ = Payload(message.share(), offset, frame.body.size());
  slots_[slot_of(call->id_)] = call;
  ++running_;
  ++served.running;
  server_->call_began();
  ++server_->counts().calls;
  return call;
}

void ServerConnection::start(ServerCall* call) {
  // A method that returns its result directly needs no coroutine.
  if (call->served_->handler.run_now != nullptr && call->offered_.empty() && !line_.transfers().full()) {
    serve_now(call);
  } else {
    handlers_.spawn(serve(call));
  }
}

bool ServerConnection::has_room() const {
  return memory_.in_use() + line_.received().held() <= server_->options().connection_memory;
}

comm::Task<void> ServerConnection::until_taken(ServerCall* call) {
  Transfers& transfers = line_.transfers();
  while (transfers.full()) {
    comm::Signal signal(server_->context(), comm::Limit(call->stop()));
    SignalWaiter waiter(signal);
    transfers.await_room(waiter);
    auto waited = co_await signal;
    if (!waited) break;
  }
  transfers.pass_on();
}

comm::Task<Status> ServerConnection::fetch(ServerCall* call) {
  call->argument_.release();
  const std::size_t size = call->offered_.size();
  if (size > server_->options().connection_memory) {
    co_return Status(Code::kResourceExhausted, "the argument has " + std::to_string(size) +
                                                   " bytes, a connection may hold " +
                                                   std::to_string(server_->options().connection_memory));
  }
  auto memory = memory_.take(size);
  if (!memory || !has_room()) {
    // Other calls hold the memory. Wait until they give it back, or until this call is cancelled.
    if (memory) *memory = comm::Buffer();
    const comm::Limit limit(call->stop());
    memory = co_await memory_.wait(size, limit);
    while (memory && !has_room()) {
      auto slept = co_await server_->context().sleep(kRoomInterval, limit.stop());
      if (!slept) break;
    }
    if (call->cancelled_) co_return Status(Code::kCancelled, "the call was cancelled before it started");
  }
  // The handler has not run yet, so repeating the call is safe.
  if (!memory) co_return Status(memory.error()).as_refused();
  call->transferring_ = true;
  auto read = co_await line_.endpoint().read(call->offered_, std::move(*memory));
  call->transferring_ = false;
  if (!read) co_return read.error();
  if (!line_.open(*read, call->seal_)) {
    ++server_->counts().broken;
    co_return Status(Code::kInternal, "the argument is not the one that the caller encrypted");
  }
  if (call->cancelled_) co_return call->pending_;
  call->argument_ = Payload(std::move(*read));
  co_return Status();
}

namespace {
// Ends a call whose handler threw. Its text may hold anything, so only ServerOptions::after gets it, unless
// the exception is a Failure, which is meant for the caller. REQUIRES: called within a catch block.
void fail_by_exception(ServerCall& call) {
  const auto fail = [&call](const char* what) {
    call.fail(Status(Code::kUnknown, "the handler threw an exception"), Status(Code::kUnknown, what));
  };
  try {
    throw;
  } catch (const Failure& failure) {
    call.fail(failure.status());
  } catch (const std::exception& failure) {
    fail(failure.what());
  } catch (...) {
    fail("the handler threw something that is no std::exception");
  }
}
}  // namespace

Status ServerConnection::permit(ServerCall* call) const {
  return server_->options().before ? server_->options().before(*call) : Status();
}

void ServerConnection::conclude(ServerCall* call, Status status) {
  if (status.ok() && !call->replied_) status = Status(Code::kInternal, "the handler gave no result");
  if (!status.ok()) call->fail(status);
  finish(call);
}

void ServerConnection::serve_now(ServerCall* call) {
  Status status;
  try {
    status = permit(call);
    const Handler& handler = call->served_->handler;
    if (status.ok() && !call->replied_) handler.run_now(handler.object, *call);
  } catch (...) {
    fail_by_exception(*call);
  }
  conclude(call, std::move(status));
}

comm::Task<void> ServerConnection::serve(ServerCall* call) {
  Status status;
  if (line_.transfers().full()) co_await until_taken(call);
  if (!call->offered_.empty() && !call->cancelled_) status = co_await fetch(call);
  if (status.ok() && !call->replied_) {
    try {
      status = permit(call);
      if (status.ok() && !call->replied_) {
        const Handler& handler = call->served_->handler;
        auto handling = handler.run(handler.object, *call);
        co_await handling;
      }
    } catch (...) {
      fail_by_exception(*call);
    }
  }
  conclude(call, std::move(status));
}

void ServerConnection::replied(const ServerCall& call, const Status& status) {
  if (status.ok()) ++server_->counts().good;
  Served& served = *call.served_;
  --served.running;
  ++served.ended[static_cast<std::size_t>(status.code())];
  served.latencies.record(time_since(call.begun_));
  if (server_->options().after) server_->options().after(call, status);
  if (call.span_) {
    // A server that is shutting down has closed the connection already.
    const std::string_view peer = line_.endpoint() ? line_.endpoint().peer() : std::string_view();
    call.span_->end(server_->options().spans, call.method_->service, call.method_->name, peer, status);
  }
  slots_[slot_of(call.id_)] = nullptr;
}

void ServerConnection::finish(ServerCall* call) {
  call->alarm_.cancel();
  call->close_streams();
  call->argument_.release();
  if (const std::size_t held = std::exchange(call->metadata_held_, 0)) {
    call->metadata_ = Metadata();  // clear() would keep its memory
    line_.received().give_back(held);
  }
  call->headers_.clear();
  call->trailers_.clear();
  call->stop_.reset();
  call->span_.reset();
  call->reply_.release();
  call->result_ = comm::Buffer();
  call->offered_ = {};
  call->lent_ = {};
  call->deadline_ = comm::Clock::time_point::max();
  call->cancelled_ = call->replied_ = call->headed_ = false;
  if (!call->pending_.ok()) call->pending_ = Status();
  call->next_free_ = free_;
  free_ = call;
  --running_;
  server_->call_ended();
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
