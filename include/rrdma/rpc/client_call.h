// A call as its caller sees it, without types. Request is a call to be sent, CallHandle a call in flight,
// CallOptions the caller's options.
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
#include "rrdma/rpc/spans.h"
#include "rrdma/rpc/status.h"
#include "rrdma/rpc/visibility.h"

namespace rrdma::rpc {
inline namespace v0 {

struct CallOptions {
  CallOptions() = default;
  // The limit of the whole call, streams included: a deadline, which is sent to the server, a stop token, or
  // both. The limits of single reads and writes cannot extend it.
  CallOptions(comm::Limit until) : limit(std::move(until)) {}
  template <typename Rep, typename Period>
  CallOptions(std::chrono::duration<Rep, Period> within) : limit(within) {}

  CallOptions&& with(std::string name, std::string value) && {
    metadata.add(std::move(name), std::move(value));
    return std::move(*this);
  }
  // Lends the server memory for a result of up to this many bytes. Only servers of protocol versions 1 and 2
  // use it: they write a large result there, and otherwise send it in parts. Later ones let the client read
  // it.
  CallOptions&& lending(std::size_t octets) && {
    lend = octets;
    return std::move(*this);
  }
  // With Pick::kHash, calls with equal keys go to the same server.
  CallOptions&& hashed_by(std::string key) && {
    hash_key = std::move(key);
    return std::move(*this);
  }
  CallOptions&& headers_into(Metadata& into) && {
    headers = &into;
    return std::move(*this);
  }
  CallOptions&& trailers_into(Metadata& into) && {
    trailers = &into;
    return std::move(*this);
  }

  comm::Limit limit;
  Metadata metadata;
  std::size_t lend = 0;
  Metadata* headers = nullptr;
  Metadata* trailers = nullptr;
  std::string hash_key;
};

namespace detail {

class ClientConnection;
struct ClientCall;

// A call to be sent: its frame with the argument in place.
class RRDMA_RPC_API Request {
 public:
  // Reserves room for an argument of this size.
  Request(ClientConnection* connection, const Method& method, CallOptions options, std::size_t size);
  // Takes an argument that is not copied, unless it is small.
  Request(ClientConnection* connection, const Method& method, CallOptions options, comm::Buffer argument);

  // The memory for the argument. Empty if failure() is an error.
  [[nodiscard]] std::span<std::byte> room();
  [[nodiscard]] const Status& failure() const { return failure_; }
  [[nodiscard]] const CallOptions& options() const { return options_; }
  [[nodiscard]] comm::Context& context() const { return *context_; }

 private:
  friend class ClientConnection;
  void take_frame(std::size_t body);

  comm::Context* context_ = nullptr;
  Method method_;
  CallOptions options_;
  std::string metadata_;
  FrameMemory frame_;
  std::size_t head_ = 0;
  comm::Buffer large_;
  Status failure_;
  std::unique_ptr<OpenSpan> span_;  // null: nobody wants it
};

template <typename A>
Request request_of(ClientConnection* connection, const Method& method, CallOptions options,
                   const A& argument) {
  Request request(connection, method, std::move(options), Codec<A>::size(argument));
  if (request.failure().ok()) Codec<A>::encode(argument, request.room());
  return request;
}

// A call in flight. The destructor cancels it if there is no reply yet. Empty after reset(): then only
// reset(), trailers() and the test for emptiness may be called.
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
  // An error if the limit of the call was reached before its reply.
  [[nodiscard]] const Status& given_up() const;
  [[nodiscard]] const Status& status() const;
  [[nodiscard]] const Metadata& headers() const;
  [[nodiscard]] bool headed() const;
  [[nodiscard]] const Metadata& trailers() const;
  Payload& body();
  WaitPlace& place();
  WaitPlace& headers_place();
  [[nodiscard]] const comm::detail::Ref<Inbound>& inbound() const;
  [[nodiscard]] const comm::detail::Ref<Outbound>& outbound() const;
  [[nodiscard]] comm::Context& context() const;
  [[nodiscard]] const std::shared_ptr<ClientConnection>& connection() const { return connection_; }

 private:
  std::shared_ptr<ClientConnection> connection_;
  ClientCall* call_ = nullptr;
};

// Sends a call immediately. Returns an empty handle on failure, with the reason in `status`, or with a good
// `status` if the connection has no room for another call.
RRDMA_RPC_API CallHandle begin_now(const std::shared_ptr<ClientConnection>& connection, Request& request,
                                   Status& status);
// Waits for room, then sends the call.
RRDMA_RPC_API comm::Task<Status> begin_later(std::shared_ptr<ClientConnection> connection, Request& request,
                                             CallHandle& call);
// Waits for the reply. Succeeds if there is one, even if the reply is an error. Fails with kCancelled if
// `call` is reset meanwhile.
RRDMA_RPC_API comm::Task<Status> reply_of(CallHandle& call, comm::Limit limit);
// Waits for the headers, or for the reply if there are none. Fails with kCancelled as above.
RRDMA_RPC_API comm::Task<Status> headers_of(CallHandle& call, comm::Limit limit);

// Converts the reply into a Result.
template <typename R>
Result<R> result_of(CallHandle& call, Metadata* trailers, Metadata* headers = nullptr) {
  if (headers != nullptr) *headers = call.headers();
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
  // This frame holds the connection, so the handle need not hold a reference too.
  const std::shared_ptr<ClientConnection> borrowed(std::shared_ptr<void>(), connection.get());
  CallHandle call = begin_now(borrowed, request, status);
  if (!call && status.ok()) status = co_await begin_later(borrowed, request, call);
  if (!status.ok()) co_return Result<R>(std::move(status));
  if (!call.replied()) {
    comm::Signal signal(call.context(), request.options().limit);
    const WaitPlace::Stay stay(call.place(), signal);
    auto waited = co_await signal;
    if (!waited) co_return waited.error();
  }
  co_return result_of<R>(call, request.options().trailers, request.options().headers);
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
