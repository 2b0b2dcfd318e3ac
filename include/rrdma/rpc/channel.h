// Channel: a connection to a server, and the calls on it. Many calls may be in flight; replies arrive in any
// order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "rrdma/comm/context.h"
#include "rrdma/rpc/calls.h"
#include "rrdma/rpc/client_call.h"
#include "rrdma/rpc/encryption.h"
#include "rrdma/rpc/method.h"
#include "rrdma/rpc/spans.h"
#include "rrdma/rpc/visibility.h"

namespace rrdma::rpc {
inline namespace v0 {

struct ChannelOptions {
  // A constructor prevents aggregate initialisation: GCC 12 destroys temporary aggregates in co_await
  // expressions twice.
  ChannelOptions() = default;
  std::size_t max_result = 64 << 20;          // bytes of the largest result or stream item; at least 4096
  std::uint32_t window = 64 << 10;            // bytes of a server's stream in flight; at least 16 KiB
  std::size_t connection_memory = 256 << 20;  // bytes of unread stream items that one connection may hold
  // Interval after which a silent server is probed. One that does not answer for this long again, at least a
  // second, is gone: its calls end with kUnavailable. Choose a longer one for large arguments over a link of
  // a few Mbit/s: the server READs them, and a probe waits behind that.
  std::chrono::milliseconds keep_alive{2000};
  std::uint16_t depth = 64;  // frames that this end has room for
  // A secret shared with the server. The server proves first that it knows it. Empty: connect to servers
  // without a secret.
  std::string secret = {};
  // Needs a secret; without one, kOtherHosts encrypts nothing.
  Encryption encryption = Encryption::kOtherHosts;
  // Called before each call, in the caller's thread. It may change the options, such as metadata and limit.
  // If it returns an error, the call ends with that status and nothing is sent.
  std::function<Status(const Method&, CallOptions&)> before = {};
  // Called once at the end of each call that was sent, with its status and duration. A call that its caller
  // gave up ends with kCancelled, or with kDeadlineExceeded if its deadline passed.
  std::function<void(const Method&, const Status&, std::chrono::nanoseconds)> after = {};
  // Gets a span of each call that was sent. The metadata `traceparent` of the call names the parent.
  SpanSink spans = {};
  // Methods that the server must have, with the same form and version. Otherwise connecting fails with
  // kFailedPrecondition. See expecting().
  std::vector<Method> expects = {};

  template <auto... kFunctions>
  ChannelOptions&& expecting() && {
    (expects.push_back(MethodOf<kFunctions>::method()), ...);
    return std::move(*this);
  }
};

namespace detail {

// The call behind a stream.
class StreamCall {
 public:
  // Awaits the headers of the server, or its reply if it sends none. Empty until then.
  comm::Task<Status> until_headers(comm::Limit limit = {}) { return headers_of(call_, std::move(limit)); }
  [[nodiscard]] const Metadata& headers() const { return call_.headers(); }
  [[nodiscard]] const Metadata& trailers() const { return call_.trailers(); }
  // Cancels the call; so does the destructor.
  void cancel() { call_.reset(); }

 protected:
  explicit StreamCall(CallHandle call) : call_(std::move(call)) {}
  // Ends the stream of arguments, if there is one, and awaits the status of the call.
  comm::Task<Status> until_end(Outbound* arguments, comm::Limit limit) {
    if (arguments != nullptr) static_cast<void>(arguments->finish());
    Status waited = co_await reply_of(call_, std::move(limit));
    if (!waited.ok()) co_return waited;
    co_return call_.status();
  }

  CallHandle call_;
};

}  // namespace detail

// A stream of results of one call.
template <typename R>
class ResultStream : public Reader<R>, public detail::StreamCall {
 public:
  explicit ResultStream(detail::CallHandle call) : Reader<R>(call.inbound()), StreamCall(std::move(call)) {}
  // Awaits the status of the call. Discards items that were not read.
  comm::Task<Status> finish(comm::Limit limit = {}) { return until_end(nullptr, std::move(limit)); }
};

// A stream of arguments of one call, and its single result.
template <typename A, typename R>
class ArgumentStream : public Writer<A>, public detail::StreamCall {
 public:
  explicit ArgumentStream(detail::CallHandle call)
      : Writer<A>(call.outbound()), StreamCall(std::move(call)) {}
  // Ends the stream of arguments and awaits the result.
  comm::Task<Result<R>> finish(comm::Limit limit = {}) {
    Status ended = co_await until_end(this->outbound_.raw(), std::move(limit));
    if (!ended.ok()) co_return ended;
    co_return detail::result_of<R>(call_, nullptr);
  }
};

// Streams in both directions.
template <typename A, typename R>
class Conversation : public Writer<A>, public Reader<R>, public detail::StreamCall {
 public:
  explicit Conversation(detail::CallHandle call)
      : Writer<A>(call.outbound()), Reader<R>(call.inbound()), StreamCall(std::move(call)) {}
  // Ends the stream of arguments. Results may still arrive.
  Status writes_done() { return this->outbound_->finish(); }
  // Ends the stream of arguments and awaits the status of the call. Discards items that were not read.
  comm::Task<Status> finish(comm::Limit limit = {}) {
    return until_end(this->outbound_.raw(), std::move(limit));
  }
};

namespace detail {
// Calls without types (lib/rpc/c).
struct RawCalls;

template <typename Stream>
comm::Task<Result<Stream>> call_stream(std::shared_ptr<ClientConnection> connection, Request request) {
  Status status;
  CallHandle call = begin_now(connection, request, status);
  if (!call && status.ok()) status = co_await begin_later(connection, request, call);
  if (!status.ok()) co_return Result<Stream>(std::move(status));
  co_return Result<Stream>(Stream(std::move(call)));
}
}  // namespace detail

// A connection to a server. Copies share the connection; the last one closes it. Belongs to its context's
// thread. Calls on a default-constructed Channel fail with kFailedPrecondition.
class RRDMA_RPC_API Channel : public detail::Calls<Channel> {
 public:
  Channel() = default;
  explicit Channel(std::shared_ptr<detail::ClientConnection> connection);
  static comm::Task<Result<Channel>> connect(comm::Context& context, std::string_view address,
                                             ChannelOptions options = {}, comm::Limit limit = {});
  static constexpr bool kTakesBulk = true;

  // Calls a method by its description, as generated stubs do.
  template <typename R, typename A>
  comm::Task<Result<R>> unary(const Method& method, const A& argument, CallOptions options = {}) {
    return detail::call_unary<R>(connection_,
                                 detail::request_of(connection_.get(), method, std::move(options), argument));
  }
  template <typename R, typename A>
  comm::Task<Result<ResultStream<R>>> results(const Method& method, const A& argument,
                                              CallOptions options = {}) {
    return detail::call_stream<ResultStream<R>>(
        connection_, detail::request_of(connection_.get(), method, std::move(options), argument));
  }
  template <typename Stream>
  comm::Task<Result<Stream>> stream(const Method& method, CallOptions options = {}) {
    return detail::call_stream<Stream>(
        connection_, detail::request_of(connection_.get(), method, std::move(options), Empty{}));
  }

  // Calls a method with a bulk argument, which is not copied.
  template <typename R>
  comm::Task<Result<R>> bulk(const Method& method, comm::Buffer argument, CallOptions options = {}) {
    return detail::call_unary<R>(
        connection_, detail::Request(connection_.get(), method, std::move(options), std::move(argument)));
  }

  // Cancels all calls in flight and closes the connection.
  void close();
  // Waits until open() is false. One waiter at a time.
  comm::Task<void> until_lost() const;
  // Whether it was ever connected.
  [[nodiscard]] bool connected() const { return connection_ != nullptr; }
  // Whether calls can be made: the server is connected and has not announced a shutdown.
  [[nodiscard]] bool open() const;
  [[nodiscard]] std::string_view peer() const;
  // The number of calls without a reply, including those that were given up.
  [[nodiscard]] std::size_t calls() const;
  // REQUIRES: connected once.
  [[nodiscard]] comm::Context& context() const;

 private:
  friend struct detail::RawCalls;
  std::shared_ptr<detail::ClientConnection> connection_;
};

// Shorthand for Channel::connect.
inline comm::Task<Result<Channel>> connect(comm::Context& context, std::string_view address,
                                           ChannelOptions options = {}, comm::Limit limit = {}) {
  return Channel::connect(context, address, std::move(options), std::move(limit));
}

}  // namespace v0
}  // namespace rrdma::rpc
