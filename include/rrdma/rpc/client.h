// Client: calls to a service with several addresses, whose servers may stop and return. It connects on
// demand, reconnects after a loss, and picks a server for each call. It repeats a call only if that is safe:
// the method is idempotent, or the call never started.
//
// Connections are made in the background, at most one at a time to each address. Calls wait for them and
// share them. An address that fails is tried again after a pause that doubles, partly random. While a server
// is connected, calls never wait for another one.
//
// A budget can bound repeated calls, so that clients do not burden servers that already fail. An idempotent
// call that takes long can be sent again to another server while the first attempt goes on (hedging).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rrdma/comm/context.h"
#include "rrdma/comm/scope.h"
#include "rrdma/comm/signal.h"
#include "rrdma/rpc/calls.h"
#include "rrdma/rpc/channel.h"
#include "rrdma/rpc/log.h"
#include "rrdma/rpc/visibility.h"

namespace rrdma::rpc {
inline namespace v0 {

enum class Pick : std::uint8_t {
  kFirst,        // one server: the first address that answers, until it is lost
  kRoundRobin,   // all servers that answer, in turn
  kLeastLoaded,  // of all servers that answer, the one with the fewest calls of this client in flight
  // Of all servers that answer, the one that the key of the call names; see CallOptions::hashed_by. If a
  // server is lost, only the calls that it had move to others. All clients with the same addresses agree.
  kHash,
};

// A store of tokens. An attempt that a server failed takes one; a call that succeeds returns a part of one.
// Calls are repeated and hedged only while the store is more than half full.
struct RetryBudget {
  double tokens = 0;  // of the full store; 0: no bound
  double per_success = 0.1;
};

struct Hedging {
  std::chrono::milliseconds after{0};  // the wait for a reply before each further attempt; 0: no hedging
  unsigned most = 1;                   // further attempts of a call
};

// Finds the addresses of a name, "host:port" each, for instance in a directory of services.
using Resolver = std::function<comm::Task<Result<std::vector<std::string>>>(std::string name)>;

struct ClientOptions {
  Pick pick = Pick::kFirst;
  unsigned tries = 4;                         // attempts of a call that may be repeated
  bool wait_for_ready = false;                // a call waits for a server as long as its limit allows
  std::chrono::milliseconds first_pause{10};  // pause between attempts; doubles, partly random
  std::chrono::milliseconds most_pause{2000};
  std::chrono::milliseconds connect{2000};  // time limit for connecting to one address
  Resolver resolve = {};                    // of names; empty: DNS, or as this system has it
  // The interval between looks at files, and the least interval between look-ups of a name, which is looked
  // up again after one of the servers has failed.
  std::chrono::milliseconds look_again{1000};
  RetryBudget budget = {};
  Hedging hedging = {};    // of unary calls of idempotent methods; with Pick::kFirst all go to one server
  Log log = {};            // gets the events of connections
  std::uint64_t seed = 0;  // seed of the random part; 0: a random seed
  ChannelOptions channel = {};
};

struct ClientCounters {
  std::uint64_t attempts = 0;  // to connect
  std::uint64_t connections = 0;
  std::uint64_t repeated = 0;  // attempts of calls after the first
  std::uint64_t hedged = 0;    // further attempts while an earlier one went on
  std::uint64_t denied = 0;    // attempts that the budget did not allow
};

namespace detail {
class ServerSet;
}

// Belongs to its context's thread. Must outlive its calls.
class RRDMA_RPC_API Client : public detail::Calls<Client> {
 public:
  // An address is "host:port", a name with all of its addresses ("name:port"), or a file with an address in
  // each line ("file:PATH"), which is watched. New addresses get calls at once. Addresses that are there no
  // longer keep their calls in flight and get no new ones.
  Client(comm::Context& context, std::vector<std::string> addresses, ClientOptions options = {});
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  static constexpr bool kTakesBulk = false;

  // Calls a method by its description, as generated stubs do. A stream is repeated only until it is open.
  template <typename R, typename A>
  comm::Task<Result<R>> unary(Method method, A argument, CallOptions options = {}) {
    if (method.idempotent && hedges()) return hedged<R>(method, std::move(argument), std::move(options));
    return repeated<R>(method, std::move(argument), std::move(options));
  }
  template <typename R, typename A>
  comm::Task<Result<ResultStream<R>>> results(Method method, A argument, CallOptions options = {}) {
    return tried<ResultStream<R>>(
        method, std::move(options),
        [method, argument = std::move(argument)](Channel& on, const CallOptions& with) {
          return on.results<R>(method, argument, with);
        });
  }
  template <typename Stream>
  comm::Task<Result<Stream>> stream(Method method, CallOptions options = {}) {
    return tried<Stream>(method, std::move(options), [method](Channel& on, const CallOptions& with) {
      return on.stream<Stream>(method, with);
    });
  }

  // Returns an open channel, chosen by Pick. Waits while a connection is being made. Fails with the last
  // error if every address has failed and none is due again. For callers that handle failures themselves.
  // `key`: of the call, for Pick::kHash.
  comm::Task<Result<Channel>> channel(comm::Limit limit = {}, std::string key = {});

  [[nodiscard]] const ClientCounters& counters() const;

 private:
  friend struct detail::RawCalls;
  // The attempts of one call.
  class RRDMA_RPC_API Attempts {
   public:
    explicit Attempts(Client& client) : client_(&client) {}
    // Waits before the next attempt. False if `status` is final. `connected`: there was a server. `safe`: a
    // call that may have started may be repeated.
    comm::Task<bool> next(Status& status, comm::Limit limit, bool connected, bool safe);
    void succeeded();

   private:
    Client* client_;
    unsigned made_ = 1;
    std::chrono::milliseconds pause_{0};
  };

  // The attempts of a hedged call. The first answer counts.
  template <typename R>
  struct Race {
    std::optional<Result<R>> answer;
    unsigned running = 0;
    detail::WaitPlace place;
  };

  // Makes attempts until one succeeds or the last one has failed. `attempt(Channel&, const CallOptions&)`
  // returns a Task<Result<T>>.
  template <typename T, typename Attempt>
  comm::Task<Result<T>> tried(Method method, CallOptions options, Attempt attempt) {
    const bool stream = method.shape != Shape::kUnary;
    for (Attempts attempts(*this);;) {
      Result<Channel> found = co_await channel(options.limit, options.hash_key);
      Status status = found.status();
      if (found.ok()) {
        Result<T> result = co_await attempt(*found, options);
        if (result.ok()) {
          if (!stream) attempts.succeeded();  // a stream is only open
          co_return std::move(result);
        }
        status = result.status();
      }
      const bool again =
          co_await attempts.next(status, options.limit, found.ok(), stream || method.idempotent);
      if (!again) co_return status;
    }
  }
  template <typename R, typename A>
  comm::Task<Result<R>> repeated(Method method, A argument, CallOptions options) {
    return tried<R>(method, std::move(options),
                    [method, argument = std::move(argument)](Channel& on, const CallOptions& with) {
                      return on.unary<R>(method, argument, with);
                    });
  }
  template <typename R, typename A>
  comm::Task<void> compete(Race<R>* race, Method method, A argument, CallOptions options) {
    ++race->running;
    Result<R> result = co_await repeated<R>(method, std::move(argument), std::move(options));
    // Another attempt may still succeed if this one found no server.
    const bool answered = result.ok() || !passing(result.status());
    if (--race->running != 0 && !answered) co_return;
    if (!race->answer) race->answer.emplace(std::move(result));
    race->place.give();
  }
  template <typename R, typename A>
  comm::Task<Result<R>> hedged(Method method, A argument, CallOptions options) {
    Race<R> race;
    comm::Scope scope;  // its end cancels the attempts that lost
    scope.spawn(compete<R>(&race, method, argument, options));
    for (unsigned left = hedging().most; !race.answer;) {
      const bool more = left != 0;
      comm::Signal signal(context(), more ? comm::Limit(hedging().after) : comm::Limit());
      const detail::WaitPlace::Stay stay(race.place, signal);
      static_cast<void>(co_await signal);
      if (race.answer || !more) continue;
      --left;
      if (may_hedge()) scope.spawn(compete<R>(&race, method, argument, options));
    }
    co_return std::move(*race.answer);
  }
  [[nodiscard]] bool hedges() const { return hedging().after.count() != 0; }
  [[nodiscard]] const Hedging& hedging() const;
  [[nodiscard]] comm::Context& context() const;
  // Counts a further attempt, if the budget allows it.
  bool may_hedge();
  // Whether another server may do better.
  [[nodiscard]] static bool passing(const Status& status);

  std::unique_ptr<detail::ServerSet> servers_;
};

}  // namespace v0
}  // namespace rrdma::rpc
