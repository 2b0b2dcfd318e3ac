// A call as its caller sees it, without types: Request (what is to be sent), CallHandle (what was sent and not yet answered), and
// CallOptions, what a caller says beside the argument.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "rrdma/comm/context.h"
#include "rrdma/comm/limit.h"
#include "rrdma/rpc/codec.h"
#include "rrdma/rpc/flow.h"
#include "rrdma/rpc/frame_memory.h"
#include "rrdma/rpc/metadata.h"
#include "rrdma/rpc/method.h"
#include "rrdma/rpc/status.h"
#include "rrdma/rpc/visibility.h"

namespace rrdma::rpc {
inline namespace v0 {

struct CallOptions {
  CallOptions() = default;
  // When the caller's patience ends: a deadline, which the server learns, a stop token, or both. It is that of the whole call: a stream ends
  // then, too, whatever those who read and write it said.
  CallOptions(comm::Limit until) : limit(std::move(until)) {}
  template <typename Rep, typename Period>
  CallOptions(std::chrono::duration<Rep, Period> within) : limit(within) {}

  CallOptions&& with(std::string name, std::string value) && {
    metadata.add(std::move(name), std::move(value));
    return std::move(*this);
  }
  // Memory for a result of up to so many octets is lent to the server, which writes it there; without it a large result comes in parts.
  CallOptions&& lending(std::size_t octets) && {
    lend = octets;
    return std::move(*this);
  }
  CallOptions&& trailers_into(Metadata& into) && {
    trailers = &into;
    return std::move(*this);
  }

  comm::Limit limit;
  Metadata metadata;
  std::size_t lend = 0;
  Metadata* trailers = nullptr;
};

namespace detail {

class ClientConnection;
struct ClientCall;

// A call that can be sent: its frame with the argument in place.
class RRDMA_RPC_API Request {
 public:
  // With room for an argument of that size.
  Request(ClientConnection* connection, const Method& method, CallOptions options, std::size_t size);
  // With an argument that stays where it is, unless it is small.
  Request(ClientConnection* connection, const Method& method, CallOptions options, comm::Buffer argument);

  // Where the argument goes; nowhere when failure() is not good.
  [[nodiscard]] std::span<std::byte> room();
  [[nodiscard]] const Status& failure() const { return failure_; }
  [[nodiscard]] const CallOptions& options() const { return options_; }
  [[nodiscard]] comm::Context& context() const { return *context_; }

 private:
  friend class ClientConnection;
  void take_frame(std::size_t body);

  comm::Context* context_;
  Method method_;
  CallOptions options_;
  std::string metadata_;
  FrameMemory frame_;
  std::size_t head_ = 0;
  comm::Buffer large_;
  Status failure_;
};

template <typename A>
Request request_of(ClientConnection* connection, const Method& method, CallOptions options,
                   const A& argument) {
  Request request(connection, method, std::move(options), Codec<A>::size(argument));
  if (request.failure().ok()) Codec<A>::encode(argument, request.room());
  return request;
}

// A call under way. Its destructor takes it back when there is no reply yet.
class RRDMA_RPC_API CallHandle {
 public:
  CallHandle() = default;
  CallHandle(std::shared_ptr<ClientConnection> connection, ClientCall* call)
      : connection_(std::move(connection)), call_(call) {}
  CallHandle(CallHandle&& other) noexcept
      : connection_(std::move(other.connection_)), call_(std::exchange(other.call_, nullptr)) {}
  CallHandle& operator=(CallHandle&& other) noexcept {
    if (this != &other) {
      reset();
      connection_ = std::move(other.connection_);
      call_ = std::exchange(other.call_, nullptr);
    }
    return *this;
  }
  ~CallHandle() { reset(); }
  explicit operator bool() const { return call_ != nullptr; }
  void reset();

  [[nodiscard]] bool replied() const;
  // Not good: the limit of the call was reached before its reply.
  [[nodiscard]] const Status& given_up() const;
  [[nodiscard]] const Status& status() const;
  [[nodiscard]] const Metadata& trailers() const;
  Payload& body();
  WaitPlace& place();
  Inbound& inbound();
  Outbound& outbound();
  [[nodiscard]] comm::Context& context() const;

 private:
  std::shared_ptr<ClientConnection> connection_;
  ClientCall* call_ = nullptr;
};

// Sends it now; an empty handle: there is no room among the connection's calls, or `status` says why not.
RRDMA_RPC_API CallHandle begin_now(const std::shared_ptr<ClientConnection>& connection, Request& request,
                                   Status& status);
// Waits for room and sends it.
RRDMA_RPC_API comm::Task<Status> begin_later(std::shared_ptr<ClientConnection> connection, Request& request,
                                             CallHandle& call);
// Waits for the reply; good when there is one, whatever it says.
RRDMA_RPC_API comm::Task<Status> reply_of(CallHandle& call, comm::Limit limit);

// What the reply says.
template <typename R>
Result<R> result_of(CallHandle& call, Metadata* trailers) {
  if (trailers != nullptr) *trailers = call.trailers();
  if (!call.status().ok()) return call.status();
  R value{};
  if (!read_payload(call.body(), call.context(), value))
    return Status(Code::kInternal, "the result cannot be read");
  return value;
}

template <typename R>
comm::Task<Result<R>> call_unary(std::shared_ptr<ClientConnection> connection, Request request) {
  Status status;
  // This frame holds the connection; the handle need not count itself as well.
  const std::shared_ptr<ClientConnection> borrowed(std::shared_ptr<void>(), connection.get());
  CallHandle call = begin_now(borrowed, request, status);
  if (!call && status.ok()) status = co_await begin_later(borrowed, request, call);
  if (!status.ok()) co_return Result<R>(std::move(status));
  if (!call.replied()) {
    comm::Signal signal(call.context(), request.options().limit);
    const WaitPlace::Stay stay(call.place(), signal);
    auto waited = co_await signal;
    if (!waited) co_return Result<R>(status_of(waited.error()));
  }
  co_return result_of<R>(call, request.options().trailers);
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
