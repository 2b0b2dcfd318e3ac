// The streams of both ends, and the calls of a client.
#include "lib/rpc/c/calls.h"

#include <cstring>
#include <utility>

#include "lib/rpc/offers.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace c {

OwnMethod::OwnMethod(std::string of_service, std::string of_name, const rrdma_rpc_method& described)
    : service(std::move(of_service)), name(std::move(of_name)) {
  method.service = service;
  method.name = name;
  method.id = method_id(service, name);
  method.schema = described.schema;
  method.shape = static_cast<Shape>(described.shape);
  method.idempotent = described.idempotent != 0;
}

// Smaller pieces are copied into an arena that is already registered.
bool goes_wrapped(std::size_t size) { return size > detail::Offers::kLargestShared; }

// ---- CallObject ----

void CallObject::leave() {
  loop().leave(shared_from_this());
  static_cast<void>(Handles::all().take<CallObject>(handle()));
}

Event CallObject::event(std::uint32_t kind, std::uint64_t tag, Status status) const {
  Event event;
  event.kind = kind;
  event.tag = tag;
  event.handle = handle();
  event.status = std::move(status);
  return event;
}

std::shared_ptr<Memory> CallObject::memory_of(Payload& payload, Status& status) const {
  if (comm::Buffer whole = payload.take_buffer())
    return std::make_shared<Memory>(shared_loop(), std::move(whole));
  const std::span<const std::byte> bytes = payload.bytes();
  if (bytes.empty()) return nullptr;
  auto copy = loop().context().pool().take(bytes.size());
  if (!copy) {
    status = copy.error();
    return nullptr;
  }
  std::memcpy(copy->data(), bytes.data(), bytes.size());
  payload.release();
  return std::make_shared<Memory>(shared_loop(), std::move(*copy));
}

void CallObject::read(std::uint64_t tag) {
  if (std::exchange(reading_, true)) {
    loop().push(event(RRDMA_RPC_EVENT_END, tag, Status(Code::kFailedPrecondition, "a read is in flight")));
    return;
  }
  loop().spawn(read_one(std::static_pointer_cast<CallObject>(shared_from_this()), tag));
}

comm::Task<void> CallObject::read_one(std::shared_ptr<CallObject> self, std::uint64_t tag) {
  const comm::detail::Ref<detail::Inbound> inbound = self->inbound_;
  Event got = self->event(RRDMA_RPC_EVENT_END, tag);
  if (!inbound) got.status = Status(Code::kFailedPrecondition, "there is no open stream to read");
  while (inbound) {
    std::optional<Payload> payload = inbound->take();
    if (payload) {
      got.payload = self->memory_of(*payload, got.status);
      if (got.status.ok()) got.kind = RRDMA_RPC_EVENT_ITEM;
      break;
    }
    if (inbound->over()) {
      got.status = inbound->status();
      break;
    }
    comm::Signal signal(self->loop().context());
    const detail::WaitPlace::Stay stay(inbound->place(), signal);
    auto waited = co_await signal;
    if (!waited) got.status = waited.error();
    if (!waited) break;
  }
  self->reading_ = false;
  self->loop().push(std::move(got));
}

void CallObject::write(std::shared_ptr<Outgoing> item, std::uint64_t tag) {
  if (std::exchange(writing_, true)) {
    loop().push(
        event(RRDMA_RPC_EVENT_WRITTEN, tag, Status(Code::kFailedPrecondition, "a write is in flight")));
    return;
  }
  loop().spawn(write_one(std::static_pointer_cast<CallObject>(shared_from_this()), std::move(item), tag));
}

namespace {
detail::Outbound::Item item_of(comm::Context& context, detail::Outbound& outbound,
                               const std::shared_ptr<Outgoing>& bytes) {
  const std::span<const std::byte> from = bytes->bytes();
  if (!goes_wrapped(from.size())) {
    detail::Outbound::Item item = outbound.prepare(from.size());
    if (item.failure.ok() && !from.empty()) std::memcpy(item.room.data(), from.data(), from.size());
    return item;
  }
  // An empty item shows whether the stream is open.
  detail::Outbound::Item item = outbound.prepare(0);
  if (!item.failure.ok()) return item;
  auto wrapped = context.pool().wrap(from, bytes);
  if (!wrapped) {
    item.failure = wrapped.error();
    return item;
  }
  item.framed = false;
  item.memory = std::move(*wrapped);
  item.room = item.memory.bytes();
  return item;
}
}  // namespace

comm::Task<void> CallObject::write_one(std::shared_ptr<CallObject> self, std::shared_ptr<Outgoing> item,
                                       std::uint64_t tag) {
  const comm::detail::Ref<detail::Outbound> outbound = self->outbound_;
  Status status(Code::kFailedPrecondition, "there is no open stream to write");
  if (outbound) {
    comm::Task<Status> sending =
        detail::Outbound::send(outbound, item_of(self->loop().context(), *outbound, item), comm::Limit());
    item.reset();
    status = co_await sending;
  }
  self->writing_ = false;
  self->loop().push(self->event(RRDMA_RPC_EVENT_WRITTEN, tag, std::move(status)));
}

void CallObject::writes_done() {
  if (outbound_) static_cast<void>(outbound_->finish());
}

// ---- Calling ----

Calling::Calling(std::shared_ptr<Loop> loop, std::unique_ptr<OwnMethod> method, CallOptions options,
                 std::shared_ptr<Outgoing> argument, std::uint64_t tag)
    : CallObject(std::move(loop)),
      method_(std::move(method)),
      options_(std::move(options)),
      argument_(std::move(argument)),
      tag_(tag) {
  options_.limit = comm::Limit(options_.limit.at(), stop_.get_token());
}

void Calling::start(std::shared_ptr<Client> client, bool owned) {
  owned_ = owned;
  loop().join(shared_from_this());
  if (client == nullptr) return began(Status(Code::kCancelled, "the channel is closed"));
  loop().spawn(run(std::static_pointer_cast<Calling>(shared_from_this()), std::move(client)));
}

comm::Task<void> Calling::run(std::shared_ptr<Calling> self, std::shared_ptr<Client> client) {
  Status status;
  const bool safe = self->method_->method.shape != Shape::kUnary || self->method_->method.idempotent;
  detail::RawCalls::Attempts attempts(*client);
  for (;;) {
    Result<Channel> found = co_await client->channel(self->options_.limit);
    const bool connected = found.ok();
    status = found.status();
    if (connected) {
      status = co_await self->attempt(detail::RawCalls::connection(*found));
      if (status.ok()) break;
    }
    const bool again = co_await attempts.next(status, self->options_.limit, connected, safe);
    if (!again) break;
    self->call_.reset();
  }
  self->began(std::move(status));
}

detail::Request Calling::request_on(detail::ClientConnection* connection, Status& status) {
  const std::span<const std::byte> bytes = argument_ ? argument_->bytes() : std::span<const std::byte>();
  if (goes_wrapped(bytes.size())) {
    auto wrapped = loop().context().pool().wrap(bytes, argument_);
    if (wrapped) return detail::Request(connection, method_->method, options_, std::move(*wrapped));
    status = wrapped.error();
    return detail::Request(connection, method_->method, options_, std::size_t{0});
  }
  detail::Request request(connection, method_->method, options_, bytes.size());
  if (request.failure().ok() && !bytes.empty())
    std::memcpy(request.room().data(), bytes.data(), bytes.size());
  return request;
}

comm::Task<Status> Calling::attempt(std::shared_ptr<detail::ClientConnection> connection) {
  Status status;
  detail::Request request = request_on(connection.get(), status);
  if (!status.ok()) co_return status;
  call_ = detail::begin_now(connection, request, status);
  if (!call_ && status.ok()) status = co_await detail::begin_later(connection, request, call_);
  if (!status.ok()) co_return status;
  if (method_->method.shape != Shape::kUnary) {
    inbound_ = call_.inbound();
    outbound_ = call_.outbound();
    co_return Status();
  }
  Status waited = co_await detail::reply_of(call_, options_.limit);
  if (!waited.ok()) {
    call_.reset();
    co_return waited;
  }
  co_return call_.status();
}

Event Calling::outcome(std::uint64_t tag, Status status) {
  Event done = event(RRDMA_RPC_EVENT_DONE, tag, std::move(status));
  if (!call_) return done;
  done.metadata = call_.trailers();
  if (done.status.ok()) done.payload = memory_of(call_.body(), done.status);
  return done;
}

void Calling::began(Status status) {
  argument_.reset();
  if (method_->method.shape == Shape::kUnary) {
    loop().push(outcome(tag_, std::move(status)));
    call_.reset();
    if (!owned_) end();
    return;
  }
  if (!status.ok()) call_.reset();
  loop().push(event(RRDMA_RPC_EVENT_OPENED, tag_, std::move(status)));
}

void Calling::finish(std::uint64_t tag) {
  writes_done();
  loop().spawn(finish_one(std::static_pointer_cast<Calling>(shared_from_this()), tag));
}

comm::Task<void> Calling::finish_one(std::shared_ptr<Calling> self, std::uint64_t tag) {
  Status status(Code::kFailedPrecondition, "there is no open stream to finish");
  if (self->call_) {
    status = co_await detail::reply_of(self->call_, comm::Limit());
    if (status.ok()) status = self->call_.status();
  }
  self->loop().push(self->outcome(tag, std::move(status)));
}

void Calling::end() {
  stop_.request_stop();
  call_.reset();
  inbound_.reset();
  outbound_.reset();
  leave();
}

// ---- ChannelObject ----

void ChannelObject::open(std::vector<std::string> addresses, const ClientOptions& options) {
  client_ = std::make_shared<Client>(loop().context(), std::move(addresses), options);
  loop().join(shared_from_this());
}

void ChannelObject::end() {
  client_.reset();
  loop().leave(shared_from_this());
  static_cast<void>(Handles::all().take<ChannelObject>(handle()));
}

}  // namespace c
}  // namespace v0
}  // namespace rrdma::rpc
