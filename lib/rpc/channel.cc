// Channel, Request and CallHandle: the client side of the library.
#include "rrdma/rpc/channel.h"

#include <algorithm>
#include <cstring>

#include "lib/rpc/client_connection.h"
#include "lib/rpc/directory.h"
#include "lib/rpc/handshake.h"
#include "lib/rpc/proof.h"
#include "lib/rpc/this_host.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

// ---- Request ----

namespace {
constexpr const char* kNeverConnected = "the channel was never connected";

std::size_t call_head(const CallOptions& options, std::size_t offered, std::size_t metadata) {
  return kCallHead + offered + (options.lend != 0 ? kRegionSize : 0) + metadata;
}
}  // namespace

Request::Request(ClientConnection* connection, const Method& method, CallOptions options, std::size_t size)
    : method_(method), options_(std::move(options)) {
  if (connection == nullptr) {
    failure_ = Status(Code::kFailedPrecondition, kNeverConnected);
    return;
  }
  context_ = &connection->line().context();
  connection->intercept(method_, options_, failure_);
  if (!failure_.ok()) return;
  span_ = connection->open_span(options_);
  if (!options_.metadata.empty()) {
    if (!fits(options_.metadata)) {
      failure_ = Status(Code::kResourceExhausted, "the metadata is larger than a frame allows");
      return;
    }
    metadata_.resize(emitted_size(options_.metadata));
    emit_metadata(options_.metadata, reinterpret_cast<std::byte*>(metadata_.data()));
  }
  failure_ = connection->admit_argument(size);
  if (!failure_.ok()) return;
  // Opening memory is expensive. Do not lend it for a result that fits into a frame, or that the server can
  // offer.
  if (connection->line().offering() ||
      options_.lend <= connection->line().frame_limit() - kReplyHead - kMaxMetadata)
    options_.lend = 0;
  head_ = call_head(options_, 0, metadata_.size());
  if (head_ + size <= connection->line().frame_limit()) {
    take_frame(size);
    return;
  }
  auto memory = connection->line().offers().take(size);
  if (!memory) {
    failure_ = memory.error();
    return;
  }
  large_ = std::move(*memory);
  head_ = call_head(options_, connection->line().offer_head(), metadata_.size());
  take_frame(0);
}

Request::Request(ClientConnection* connection, const Method& method, CallOptions options,
                 comm::Buffer argument)
    : Request(connection, method, std::move(options), std::size_t{0}) {
  if (!failure_.ok()) return;
  const std::size_t size = argument.size();
  failure_ = connection->admit_argument(size);
  if (!failure_.ok()) return;
  const bool small = head_ + size <= connection->line().frame_limit();
  if (!small) {
    auto memory = connection->line().offers().take_copy(std::move(argument));
    if (!memory) {
      failure_ = memory.error();
      return;
    }
    large_ = std::move(*memory);
    head_ = call_head(options_, connection->line().offer_head(), metadata_.size());
  }
  take_frame(small ? size : 0);
  if (small && size != 0 && failure_.ok()) std::memcpy(frame_.data() + head_, argument.data(), size);
}

void Request::take_frame(std::size_t body) {
  auto taken = frame_.take(context_->pool(), head_ + body);
  if (!taken) failure_ = taken.error();
}

std::span<std::byte> Request::room() { return large_ ? large_.bytes() : frame_.bytes().subspan(head_); }

// ---- CallHandle ----

void CallHandle::reset() {
  if (call_ != nullptr) connection_->abandon(std::exchange(call_, nullptr));
  connection_.reset();
}
bool CallHandle::replied() const { return call_->replied; }
const Status& CallHandle::given_up() const { return call_->given_up; }
const Status& CallHandle::status() const { return call_->status; }
namespace {
const Metadata& no_metadata() {
  static const Metadata none;
  return none;
}
}  // namespace
const Metadata& CallHandle::trailers() const { return call_ != nullptr ? call_->trailers : no_metadata(); }
const Metadata& CallHandle::headers() const { return call_ != nullptr ? call_->headers : no_metadata(); }
bool CallHandle::headed() const { return call_->headed; }
WaitPlace& CallHandle::headers_place() { return call_->headers_place; }
Payload& CallHandle::body() { return call_->body; }
WaitPlace& CallHandle::place() { return call_->place; }
const comm::detail::Ref<Inbound>& CallHandle::inbound() const { return call_->inbound; }
const comm::detail::Ref<Outbound>& CallHandle::outbound() const { return call_->outbound; }
comm::Context& CallHandle::context() const { return connection_->line().context(); }

CallHandle begin_now(const std::shared_ptr<ClientConnection>& connection, Request& request, Status& status) {
  status = request.failure();
  if (!status.ok()) return {};
  if (!connection->usable()) {
    status = connection->why();
    return {};
  }
  if (!connection->has_room()) return {};
  ClientCall* call = connection->begin(request, status);
  return call != nullptr ? CallHandle(connection, call) : CallHandle();
}

comm::Task<Status> begin_later(std::shared_ptr<ClientConnection> connection, Request& request,
                               CallHandle& call) {
  for (;;) {
    RoomWaiter waiter(*connection, request.options().limit);
    connection->await_room(waiter);
    auto waited = co_await waiter.signal;
    if (!waited) co_return waited.error();
    Status status;
    call = begin_now(connection, request, status);
    if (call || !status.ok()) co_return status;
  }
}

comm::Task<Status> reply_of(CallHandle& call, comm::Limit limit) {
  // Another coroutine may cancel the call meanwhile. The place of this waiter must outlive that.
  const std::shared_ptr<ClientConnection> connection = call.connection();
  while (call && !call.replied()) {
    if (!call.given_up().ok()) co_return call.given_up();
    comm::Signal signal(call.context(), limit);
    const WaitPlace::Stay stay(call.place(), signal);
    auto waited = co_await signal;
    if (!waited) co_return waited.error();
  }
  co_return call ? Status() : Status(Code::kCancelled, "the call was cancelled");
}

comm::Task<Status> headers_of(CallHandle& call, comm::Limit limit) {
  const std::shared_ptr<ClientConnection> connection = call.connection();
  while (call && !call.headed() && !call.replied()) {
    if (!call.given_up().ok()) co_return call.given_up();
    comm::Signal signal(call.context(), limit);
    const WaitPlace::Stay stay(call.headers_place(), signal);
    auto waited = co_await signal;
    if (!waited) co_return waited.error();
  }
  co_return call ? Status() : Status(Code::kCancelled, "the call was cancelled");
}

// ---- connecting ----

namespace {

Status why_refused(const comm::Error& error) {
  Status status = error;
  if (error.code() != comm::Code::kRefused) return status;
  if (error.detail() == kRefusedSecret || error.detail() == kRefusedPlain || error.detail() == kRefusedSealed)
    return {Code::kUnauthenticated, status.message()};
  if (error.detail() == kRefusedVersion || error.detail() == kRefusedForeign)
    return {Code::kFailedPrecondition, status.message()};
  if (error.detail() == kRefusedBusy) return {Code::kUnavailable, status.message()};
  return status;
}

// The word of this end about encryption to a peer with this address.
std::uint8_t encryption_toward(const std::string& address, const ChannelOptions& options) {
  if (options.secret.empty() || options.encryption == Encryption::kNever) return kCannotEncrypt;
  const bool must = options.encryption == Encryption::kAlways || !on_this_host(address);
  return must ? kMustEncrypt : kCanEncrypt;
}

// Checks the server's hello against the client's. Makes the connection, with the client's first frame posted.
Result<std::shared_ptr<ClientConnection>> agree(comm::Context& context, const std::string& address,
                                                comm::Endpoint endpoint, const ChannelOptions& options,
                                                const ClientHello& hello) {
  const auto failed = [](Code code, std::string why) {
    return Result<std::shared_ptr<ClientConnection>>(Status(code, std::move(why)));
  };
  const auto answer = endpoint.hello();
  const auto server = parse_server_hello(answer);
  const bool encrypted = server && server->encrypted();
  if (!server || server->version < hello.lowest || server->version > hello.highest ||
      endpoint.message_limit() < kFrameLimit + (encrypted ? kSealing : 0))
    return failed(Code::kFailedPrecondition, address + " does not speak this version of rrdma::rpc");
  std::optional<SealKeys> keys;
  std::optional<Handshake> handshake;
  if (encrypted) {
    if (hello.encryption == kCannotEncrypt || !server->secret || server->version < kSealingVersion)
      return failed(Code::kFailedPrecondition, address + " encrypts, which was not asked for");
    handshake.emplace(Role::kClient, options.secret);
    if (handshake->check_server(emit(hello), answer)) keys = handshake->client_keys(server->key);
    if (!keys) return failed(Code::kUnauthenticated, address + " does not know the shared secret");
  } else if (hello.secret) {
    const Proof expected = proof_of(options.secret, Role::kServer, hello.nonce, server->nonce);
    if (!server->secret || !same(expected, server->proof))
      return failed(Code::kUnauthenticated, address + " does not know the shared secret");
    if (hello.encryption == kMustEncrypt)
      return failed(Code::kUnauthenticated,
                    address + " does not encrypt, and ChannelOptions::encryption demands it");
  }
  auto connection = std::make_shared<ClientConnection>(context, std::move(endpoint), options, *server);
  if (keys) {
    connection->encrypt(handshake->client_body(), *keys);
  } else if (hello.secret) {
    connection->prove(proof_of(options.secret, Role::kClient, hello.nonce, server->nonce));
  }
  return connection;
}

comm::Task<Result<Channel>> open_channel(comm::Context& context, std::string address, ChannelOptions options,
                                         comm::Limit limit) {
  if (options.encryption == Encryption::kAlways && options.secret.empty())
    co_return Result<Channel>(Status(Code::kFailedPrecondition, kNoSecret));
  ClientHello hello;
  hello.highest = kProtocolVersion;
  hello.max_result = static_cast<std::uint32_t>(std::min<std::size_t>(options.max_result, ~std::uint32_t{0}));
  hello.secret = !options.secret.empty();
  if (hello.secret) hello.nonce = fresh_nonce();
  hello.encryption = encryption_toward(address, options);
  const auto octets = emit(hello);
  comm::Profile profile;
  profile.message_limit = kLargeFrameLimit + (hello.encryption != kCannotEncrypt ? kSealing : 0);
  profile.receive_depth = options.depth;
  profile.send_depth = options.depth;
  profile.keep_alive = options.keep_alive;
  profile.hello = octets;
  auto endpoint = co_await context.connect(address, profile, limit);
  if (!endpoint) co_return Result<Channel>(why_refused(endpoint.error()));
  auto connection = agree(context, address, std::move(*endpoint), options, hello);
  if (!connection.ok()) co_return Result<Channel>(connection.status());
  (*connection)->start();
  Channel channel(std::move(*connection));
  if (!options.expects.empty()) {
    auto checked =
        co_await channel.call<&Versions::check>(Versions::list(options.expects), CallOptions(limit));
    if (!checked.ok()) co_return Result<Channel>(checked.status());
  }
  co_return Result<Channel>(std::move(channel));
}

}  // namespace
}  // namespace detail

Channel::Channel(std::shared_ptr<detail::ClientConnection> connection)
    : connection_(connection.get(), [keep = connection](detail::ClientConnection* one) mutable {
        // The last copy of the channel and the last call are gone.
        one->close();
        keep.reset();
      }) {}

comm::Task<Result<Channel>> Channel::connect(comm::Context& context, std::string_view address,
                                             ChannelOptions options, comm::Limit limit) {
  return detail::open_channel(context, std::string(address), std::move(options), std::move(limit));
}

void Channel::close() {
  if (connection_) connection_->close();
}
comm::Task<void> Channel::until_lost() const {
  const std::shared_ptr<detail::ClientConnection> connection = connection_;
  while (connection && connection->usable()) {
    comm::Signal signal(connection->line().context());
    const detail::WaitPlace::Stay stay(connection->lost(), signal);
    static_cast<void>(co_await signal);
  }
}
bool Channel::open() const { return connection_ && connection_->usable(); }
std::string_view Channel::peer() const { return connection_ ? connection_->peer() : std::string_view(); }
std::size_t Channel::calls() const { return connection_ ? connection_->under_way() : 0; }
comm::Context& Channel::context() const {
  if (!connection_) detail::no_value(Status(Code::kFailedPrecondition, detail::kNeverConnected));
  return connection_->line().context();
}

}  // namespace v0
}  // namespace rrdma::rpc
