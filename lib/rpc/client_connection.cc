#include "lib/rpc/client_connection.h"

#include <algorithm>

#include "lib/rpc/method_names.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

ClientConnection::ClientConnection(comm::Context& context, comm::Endpoint endpoint,
                                   const ChannelOptions& options, const ServerHello& server)
    : line_(context, std::move(endpoint), server.version),
      options_(options),
      server_(server),
      peer_(line_.endpoint().peer()) {
  options_.window = std::max(options_.window, kLeastWindow);
  line_.received().limit(options_.connection_memory);
}

ClientConnection::~ClientConnection() = default;

void ClientConnection::start() { run(shared_from_this()); }

comm::detail::Detached ClientConnection::run(std::shared_ptr<ClientConnection> self) {
  Status status;
  while (!self->over_) {
    comm::Message message = self->line_.endpoint().try_receive();
    if (!message) {
      auto received = co_await self->line_.endpoint().receive();
      if (self->over_) break;
      if (!received) {
        status = received.error();
        // A server that shuts down answers all started calls before it closes. Calls without a reply never
        // started. On an encrypted connection this does not hold: others can forge the close.
        if (self->going_away_ && !self->line_.encrypted() &&
            received.error().code() == comm::Code::kClosedByPeer)
          status = std::move(status).as_refused();
        break;
      }
      message = std::move(*received);
    }
    if (!self->handle(message)) {
      status = self->broken();
      self->line_.endpoint().abort();
      break;
    }
  }
  self->end(std::move(status));
}

void ClientConnection::prove(const Proof& proof) { post_first(Kind::kProof, proof); }

void ClientConnection::encrypt(std::span<const std::byte> body, const SealKeys& keys) {
  post_first(Kind::kKey, body);
  line_.encrypt(keys);
}

void ClientConnection::post_first(Kind kind, std::span<const std::byte> body) {
  Frame frame;
  frame.kind = kind;
  const std::size_t head = head_size(frame);
  comm::Buffer memory = line_.frame(head + body.size());
  if (!memory) return;
  emit_head(frame, memory.data());
  std::copy(body.begin(), body.end(), memory.data() + head);
  line_.post(std::move(memory));
}

void ClientConnection::close() {
  end(Status(Code::kCancelled, "the channel was closed"));
  line_.close();
}

Status ClientConnection::broken() const {
  if (line_.encrypted())
    return {Code::kUnavailable, "a message from " + peer_ + " was forged, or is not as it was sent"};
  return {Code::kInternal, peer_ + " broke the protocol of rrdma::rpc"};
}

Status ClientConnection::why() const {
  if (over_ && !why_.ok()) return why_;
  return Status(Code::kUnavailable, peer_ + " is going away").as_refused();
}

void ClientConnection::end(Status status) {
  if (std::exchange(over_, true)) return;
  why_ =
      status.ok() ? Status(Code::kUnavailable, "the connection to " + peer_ + " is over") : std::move(status);
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i]->active) settle(calls_[i].get(), why_);
  }
  while (RoomWaiter* waiter = waiting_.pop_front()) waiter->signal.give();
  lost_.give();
}

// ---- calls ----

ClientCall* ClientConnection::take_slot() {
  if (free_ == nullptr) {
    calls_.push_back(std::make_unique<ClientCall>());
    free_ = calls_.back().get();
    free_->id = static_cast<std::uint32_t>(calls_.size() - 1);
  }
  ClientCall* call = std::exchange(free_, free_->next_free);
  // The slot number stays; the generation above it changes.
  call->id += 0x10000;
  call->active = call->held = true;
  call->replied = false;
  ++under_way_;
  return call;
}

void ClientConnection::free_slot(ClientCall* call) {
  call->held = false;
  call->body.release();
  call->trailers.clear();
  call->headers.clear();
  call->headed = false;
  call->span.reset();
  if (!call->status.ok()) call->status = Status();
  if (!call->given_up.ok()) call->given_up = Status();
  call->close_streams();
  call->next_free = free_;
  free_ = call;
  offer_room();
}

void ClientConnection::offer_room() {
  if (!has_room()) return;
  if (RoomWaiter* waiter = waiting_.pop_front()) waiter->signal.give();
}

RoomWaiter::RoomWaiter(ClientConnection& connection, comm::Limit limit)
    : signal(connection.line().context(), std::move(limit)), connection_(&connection) {}
RoomWaiter::~RoomWaiter() {
  if (signal.given()) connection_->offer_room();
}

Status ClientConnection::share_memory(ClientCall* call, Request& request, Frame& frame) {
  if (request.large_) {
    auto opened = line_.offers().open(std::move(request.large_));
    if (!opened) return opened.error();
    call->offered = std::move(*opened);
    line_.mark_offered(frame, call->offered.region());
  }
  if (request.options_.lend != 0) {
    auto memory = line_.context().pool().take(request.options_.lend);
    if (!memory) return memory.error();
    call->lent = std::move(*memory);
    auto opened = comm::share(line_.context(), call->lent, comm::Access::kWrite);
    if (!opened) return opened.error();
    call->lent_share = std::move(*opened);
    const auto remote = call->lent_share.remote();
    frame.flags |= flag::kLent;
    frame.lent = {remote.address(), remote.key(), static_cast<std::uint32_t>(remote.size())};
  }
  return {};
}

ClientCall* ClientConnection::begin(Request& request, Status& status) {
  Frame frame;
  frame.kind = Kind::kCall;
  const comm::Limit& limit = request.options_.limit;
  if (limit.stop().stop_requested()) {
    status = Status(Code::kCancelled, "a stop was requested before the call");
    return nullptr;
  }
  if (limit.timed()) {
    const auto left = limit.at() - comm::Clock::now();
    if (left <= comm::Clock::duration::zero()) {
      status = Status(Code::kDeadlineExceeded, "the time was over before the call");
      return nullptr;
    }
    frame.timeout = static_cast<std::uint64_t>(std::chrono::nanoseconds(left).count());
  }
  ClientCall* call = take_slot();
  status = share_memory(call, request, frame);
  if (!status.ok()) {
    settle(call, status, false);
    free_slot(call);
    return nullptr;
  }
  frame.call = call->id;
  name_for_captures(request.method_);
  frame.method = request.method_.id;
  frame.schema = request.method_.schema;
  frame.metadata = std::as_bytes(std::span<const char>(request.metadata_.data(), request.metadata_.size()));
  const Shape shape = request.method_.shape;
  call->streams = shape != Shape::kUnary;
  if (shape == Shape::kServerStream || shape == Shape::kBidirectional) {
    frame.window = options_.window;
    call->inbound =
        comm::detail::Ref<Inbound>(new Inbound(line_, call->id, options_.window, options_.max_result));
  }
  if (shape == Shape::kClientStream || shape == Shape::kBidirectional)
    call->outbound = comm::detail::Ref<Outbound>(new Outbound(line_, call->id, server_.window));
  call->span = std::move(request.span_);
  if (tells()) {
    call->method = request.method_;
    call->begun = comm::Clock::now();
    call->deadline = limit.at();
  }
  emit_head(frame, request.frame_.data());
  line_.post(request.frame_);
  if (call->streams && (limit.timed() || limit.stop().stop_possible()))
    watch(shared_from_this(), call, limit);
  return call;
}

comm::detail::Detached ClientConnection::watch(std::shared_ptr<ClientConnection> self, ClientCall* call,
                                               comm::Limit limit) {
  comm::Signal signal(self->line_.context(), std::move(limit));
  call->watch = &signal;
  auto waited = co_await signal;
  // If the signal was given, the call has ended and its slot may already be reused.
  if (signal.given()) co_return;
  call->watch = nullptr;
  self->give_up(call, waited.error());
}

void ClientConnection::give_up(ClientCall* call, Status status) {
  call->given_up = status;
  tell_cancelled(*call);
  call->end_streams(status, status);
  call->place.give();
  call->headers_place.give();
}

void ClientConnection::tell_cancelled(const ClientCall& call) {
  Frame frame;
  frame.kind = Kind::kCancel;
  frame.call = call.id;
  line_.post(frame);
}

void ClientConnection::abandon(ClientCall* call) {
  if (call->replied) return free_slot(call);
  call->held = false;
  std::string().swap(call->parts);
  call->headers.clear();
  if (tells()) {
    const bool late = comm::Clock::now() >= call->deadline;
    tell_end(*call, Status(late ? Code::kDeadlineExceeded : Code::kCancelled, "the caller gave it up"));
  }
  if (comm::Signal* watching = std::exchange(call->watch, nullptr)) watching->give();
  call->close_streams();
  call->place.give();
  call->headers_place.give();
  if (call->given_up.ok()) tell_cancelled(*call);
}

void ClientConnection::tell_end(const ClientCall& call, const Status& status) const {
  if (options_.after) options_.after(call.method, status, comm::Clock::now() - call.begun);
  if (call.span) call.span->end(options_.spans, call.method.service, call.method.name, peer_, status);
}

void ClientConnection::settle(ClientCall* call, Status status, bool sent) {
  call->active = call->fetching = false;
  call->replied = true;
  --under_way_;
  if (call->offered) call->offered.revoke();
  if (call->lent) {
    call->lent_share.revoke();
    call->lent = comm::Buffer();
  }
  std::string().swap(call->parts);  // clear() would keep the memory
  if (comm::Signal* watching = std::exchange(call->watch, nullptr)) watching->give();
  // Report the status that the caller already got, even if the server's reply crossed with it.
  call->status = call->given_up.ok() ? std::move(status) : call->given_up;
  if (!call->held) return free_slot(call);
  if (tells() && sent) tell_end(*call, call->status);
  if (call->streams)
    call->end_streams(call->status,
                      call->status.ok() ? Status(Code::kCancelled, "the call is over") : call->status);
  call->place.give();
  call->headers_place.give();
}

// ---- frames ----

ClientCall* ClientConnection::find(std::uint32_t id) {
  const std::uint32_t slot = id & 0xffff;
  if (slot >= calls_.size() || !calls_[slot]->active || calls_[slot]->id != id) return nullptr;
  return calls_[slot].get();
}

bool ClientConnection::handle(comm::Message& message) {
  const auto frame = parse_frame(line_.open(message));
  if (!frame) return false;
  line_.heard(frame->kind == Kind::kPack);
  if (frame->kind != Kind::kPack) return handle(*frame, message);
  if (!line_.packs()) return false;
  for (auto rest = frame->body; !rest.empty() && !over_;) {
    const auto packed = parse_frame(next_packed(rest));
    if (!packed || !handle(*packed, message)) return false;
  }
  return true;
}

bool ClientConnection::handle(const Frame& frame, const comm::Message& message) {
  if (!line_.admits(frame)) return false;
  if (frame.kind == Kind::kGoAway) {
    going_away_ = true;
    while (RoomWaiter* waiter = waiting_.pop_front()) waiter->signal.give();
    lost_.give();
    return true;
  }
  if (frame.kind == Kind::kTaken) return line_.taken(frame);
  // The reply is the last frame of a call. Any other frame for an unknown call violates the protocol.
  ClientCall* call = find(frame.call);
  if (call == nullptr || call->fetching) return false;
  switch (frame.kind) {
    case Kind::kReply: return handle_reply(call, frame, message);
    case Kind::kPart: return handle_part(call, frame);
    case Kind::kHeaders: return handle_headers(call, frame);
    // A stream without an object: the caller gave the call up.
    case Kind::kItem: return line_.deliver(call->inbound.raw(), frame, message);
    case Kind::kWindow: return !call->outbound || call->outbound->widen(frame.window);
    default: return false;
  }
}

Status ClientConnection::admit_argument(std::size_t size) const {
  if (size <= std::max<std::size_t>(server_.max_argument, kFrameLimit)) return {};
  return {Code::kResourceExhausted, "the argument has " + std::to_string(size) + " bytes, the server takes " +
                                        std::to_string(server_.max_argument)};
}

bool ClientConnection::handle_part(ClientCall* call, const Frame& frame) {
  if (call->parts.size() + frame.body.size() > options_.max_result) return false;
  if (!call->held) return true;
  call->parts.append(reinterpret_cast<const char*>(frame.body.data()), frame.body.size());
  return true;
}

bool ClientConnection::handle_headers(ClientCall* call, const Frame& frame) const {
  if (!line_.heads() || std::exchange(call->headed, true)) return false;
  Metadata headers;
  if (!parse_metadata(frame.metadata, headers)) return false;
  if (call->held) call->headers = std::move(headers);
  call->headers_place.give();
  return true;
}

bool ClientConnection::handle_reply(ClientCall* call, const Frame& frame, const comm::Message& message) {
  Metadata trailers;
  if (!frame.metadata.empty() && !parse_metadata(frame.metadata, trailers)) return false;
  // A server of an earlier version does not compare a result in one frame with the limit.
  if (call->parts.size() + frame.body.size() > std::max(options_.max_result, kFrameLimit)) return false;
  if (frame.has(flag::kWritten) && (!call->lent || frame.written > call->lent.size())) return false;
  Status status;
  if (frame.status != 0 || !frame.message.empty() || !frame.details.empty()) {
    status = Status(static_cast<Code>(frame.status), std::string(frame.message), std::string(frame.details));
    if (frame.has(flag::kRefused)) status = std::move(status).as_refused();
  }
  if (!trailers.empty() && call->held) call->trailers = std::move(trailers);
  if (frame.has(flag::kOffered)) return fetch_result(call, frame.offered);
  if (call->held && status.ok()) {
    if (frame.has(flag::kWritten)) {
      call->lent_share.revoke();
      call->lent.resize(frame.written);
      call->body = Payload(std::move(call->lent));
    } else if (!call->parts.empty() || call->streams) {
      call->parts.append(reinterpret_cast<const char*>(frame.body.data()), frame.body.size());
      call->body = Payload(std::move(call->parts));
    } else {
      // The caller reads the body before the next message is handled.
      const auto offset = static_cast<std::size_t>(frame.body.data() - message.bytes().data());
      call->body = Payload(message.share(), offset, frame.body.size());
    }
  }
  settle(call, std::move(status));
  return true;
}

bool ClientConnection::fetch_result(ClientCall* call, const Region& region) {
  if (!line_.offering() || line_.plain_size(region) > options_.max_result) return false;
  Status status;
  if (call->held) {
    auto memory = line_.context().pool().take(region.length);
    if (memory) {
      call->fetching = true;
      const comm::RemoteSpan<const std::byte> from(region.address, region.key, region.length);
      comm::then(line_.endpoint().read(from, std::move(*memory)),
                 [self = shared_from_this(), call, region](comm::Result<comm::Buffer> read) {
                   if (self->over_) return;  // and the call has ended
                   if (read && !self->line_.open(*read, region.seal)) return self->end(self->broken());
                   self->line_.give_back(region.address);
                   if (read && call->held) call->body = Payload(std::move(*read));
                   self->settle(call, read ? Status() : read.error());
                 });
      return true;
    }
    status = memory.error();
  }
  line_.give_back(region.address);
  settle(call, std::move(status));
  return true;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
