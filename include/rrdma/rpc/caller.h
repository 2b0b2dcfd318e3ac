// Caller: the way of a generated stub to its service: a Channel, or a Client.
#pragma once

#include <utility>

#include "rrdma/rpc/channel.h"
#include "rrdma/rpc/client.h"

namespace rrdma::rpc {
inline namespace v0 {

class Caller {
 public:
  Caller(Channel channel) : channel_(std::move(channel)) {}
  // `client` must outlive the stub and its calls.
  Caller(Client& client) : client_(&client) {}

  template <typename R, typename A>
  comm::Task<Result<R>> unary(const Method& method, const A& argument, CallOptions options) {
    if (client_ != nullptr) return client_->unary<R>(method, argument, std::move(options));
    return channel_.unary<R>(method, argument, std::move(options));
  }
  template <typename R, typename A>
  comm::Task<Result<ResultStream<R>>> results(const Method& method, const A& argument, CallOptions options) {
    if (client_ != nullptr) return client_->results<R>(method, argument, std::move(options));
    return channel_.results<R>(method, argument, std::move(options));
  }
  template <typename Stream>
  comm::Task<Result<Stream>> stream(const Method& method, CallOptions options) {
    if (client_ != nullptr) return client_->stream<Stream>(method, std::move(options));
    return channel_.stream<Stream>(method, std::move(options));
  }

  // Never connected if the calls go through a Client.
  [[nodiscard]] Channel& channel() { return channel_; }

 private:
  Channel channel_;
  Client* client_ = nullptr;
};

}  // namespace v0
}  // namespace rrdma::rpc
