// Client: calls to a service with several addresses, whose servers may stop and return. It connects on
// demand, reconnects after a loss, and picks a server for each call. It repeats a call only if that is safe:
// the method is idempotent, or the server reported that the call never started.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "rrdma/comm/context.h"
#include "rrdma/rpc/channel.h"

namespace rrdma::rpc {
inline namespace v0 {

enum class Pick : std::uint8_t { kFirst, kRoundRobin };

struct ClientOptions {
  Pick pick = Pick::kFirst;                   // the first address that answers, or each in turn
  unsigned tries = 4;                         // attempts of a call that may be repeated
  bool wait_for_ready = false;                // a call waits for a server as long as its limit allows
  std::chrono::milliseconds first_pause{10};  // pause between attempts; doubles, partly random
  std::chrono::milliseconds most_pause{2000};
  std::chrono::milliseconds connect{2000};  // time limit for connecting to one address
  std::uint64_t seed = 0;                   // seed of the random part; 0: a random seed
  ChannelOptions channel = {};
};

struct ClientCounters {
  std::uint64_t connections = 0;
  std::uint64_t repeated = 0;  // attempts after the first
};

// Belongs to its context's thread. Must outlive its calls.
class Client {
 public:
  Client(comm::Context& context, std::vector<std::string> addresses, ClientOptions options = {})
      : context_(&context),
        options_(std::move(options)),
        random_(options_.seed != 0 ? options_.seed : std::random_device{}()) {
    for (std::string& address : addresses) servers_.push_back({std::move(address), {}});
  }

  // Calls a unary method of a plain C++ service. Keeps the argument for a retry.
  template <auto kFunction>
  comm::Task<Result<typename MethodOf<kFunction>::Reply>> call(
      typename MethodOf<kFunction>::Argument argument, CallOptions options = {}) {
    using Of = MethodOf<kFunction>;
    return unary<typename Of::Reply>(Of::method(), std::move(argument), std::move(options));
  }
  // Calls a unary method by its description.
  template <typename R, typename A>
  comm::Task<Result<R>> unary(Method method, A argument, CallOptions options = {}) {
    std::chrono::milliseconds pause = options_.first_pause;
    for (unsigned attempt = 1;; ++attempt) {
      Result<Channel> found = co_await channel(options.limit);
      Status status = found.status();
      // Without a connection, the call never started.
      bool safe = options_.wait_for_ready || attempt < options_.tries;
      if (found.ok()) {
        Result<R> result = co_await found->template unary<R>(method, argument, options);
        if (result.ok()) co_return std::move(result);
        status = result.status();
        safe = attempt < options_.tries && (method.idempotent || status.refused());
      }
      if (status.code() != Code::kUnavailable || !safe) co_return Result<R>(std::move(status));
      Status paused = co_await rest(pause, options.limit);
      if (!paused.ok()) co_return Result<R>(paused.code() == Code::kDeadlineExceeded ? status : paused);
      pause = std::min(pause * 2, options_.most_pause);
      ++counters_.repeated;
    }
  }

  // Returns an open channel, chosen by Pick. If no address answers, fails with the error of the last one. For
  // streams, and for callers that handle failures themselves.
  comm::Task<Result<Channel>> channel(comm::Limit limit = {}) {
    Status last(Code::kUnavailable, "there are no addresses");
    const std::size_t from = options_.pick == Pick::kRoundRobin ? next_++ : 0;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      Place& server = servers_[(from + i) % servers_.size()];
      if (server.channel.open()) co_return Result<Channel>(server.channel);
      const auto patience = std::min(limit.at(), comm::Clock::now() + options_.connect);
      auto connected = co_await Channel::connect(*context_, server.address, options_.channel,
                                                 comm::Limit(patience, limit.stop()));
      if (connected.ok()) {
        // Another call may have connected meanwhile.
        if (!server.channel.open()) server.channel = std::move(*connected);
        ++counters_.connections;
        co_return Result<Channel>(server.channel);
      }
      last = connected.status();
      // Treat an address that does not answer as an unavailable server.
      if (last.code() == Code::kDeadlineExceeded && comm::Clock::now() < limit.at())
        last = Status(Code::kUnavailable, last.message());
    }
    co_return Result<Channel>(std::move(last));
  }

  [[nodiscard]] const ClientCounters& counters() const { return counters_; }

 private:
  struct Place {
    std::string address;
    Channel channel;
  };

  comm::Task<Status> rest(std::chrono::milliseconds pause, comm::Limit limit) {
    std::uniform_int_distribution<std::int64_t> part(pause.count() / 2, pause.count());
    const auto until = comm::Clock::now() + std::chrono::milliseconds(part(random_));
    if (until >= limit.at()) co_return Status(Code::kDeadlineExceeded, "no time is left for another try");
    auto slept = co_await context_->sleep_until(until, limit.stop());
    if (!slept) co_return status_of(slept.error());
    co_return Status();
  }

  comm::Context* context_;
  ClientOptions options_;
  std::mt19937_64 random_;
  std::vector<Place> servers_;
  std::size_t next_ = 0;
  ClientCounters counters_;
};

}  // namespace v0
}  // namespace rrdma::rpc
