// Reconnecting: a client's endpoint that reconnects after a failure, with randomised exponential backoff. It
// does not repeat operations that were lost with a connection: only the application knows which are safe to
// repeat.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "rrdma/comm/context.h"

namespace rrdma::comm {
inline namespace v0 {

// Pauses between attempts: `first`, doubled after each attempt, up to `most`.
struct Backoff {
  std::chrono::milliseconds first{10};
  std::chrono::milliseconds most{5000};
  unsigned tries = 0;      // 0: no bound but the limit of the call
  std::uint64_t seed = 0;  // seed of the random part of pauses; 0: a random seed
};

// Holds one connection to an address and replaces it when it is lost. Belongs to its context's thread. Must
// not outlive the context.
class Reconnecting {
 public:
  Reconnecting(Context& context, std::string address, Profile profile = {}, Backoff backoff = {})
      : context_(&context),
        address_(std::move(address)),
        hello_(reinterpret_cast<const char*>(profile.hello.data()), profile.hello.size()),
        profile_(profile),
        backoff_(backoff),
        random_(backoff.seed != 0 ? backoff.seed : std::random_device{}()) {}

  // Returns the current endpoint if it is open, otherwise connects a new one. Fails with the last error if no
  // attempt succeeded. The pointer is valid until the next call.
  Task<Result<Endpoint*>> endpoint(Limit limit = {}) {
    std::chrono::milliseconds pause = backoff_.first;
    for (unsigned attempt = 1;; ++attempt) {
      if (endpoint_ && endpoint_.open()) co_return &endpoint_;
      profile_.hello = std::as_bytes(std::span<const char>(hello_.data(), hello_.size()));
      auto connected = co_await context_->connect(address_, profile_, limit);
      if (connected) {
        endpoint_ = std::move(*connected);
        ++connections_;
        co_return &endpoint_;
      }
      const Code code = connected.error().code();
      const bool may_pass = code == Code::kRefused || code == Code::kUnreachable || code == Code::kPeerGone;
      if (!may_pass || attempt == backoff_.tries) co_return connected.error();
      // Randomise the pause, so that the clients of a lost server do not reconnect all at once.
      std::uniform_int_distribution<std::int64_t> part(pause.count() / 2, pause.count());
      const Clock::time_point next = Limit(std::chrono::milliseconds(part(random_))).at();
      if (next > limit.at()) co_return connected.error();
      auto slept = co_await context_->sleep_until(next, limit.stop());
      if (!slept) co_return slept.error();
      pause = pause < backoff_.most / 2 ? pause * 2 : backoff_.most;
    }
  }
  // The number of connections established so far.
  [[nodiscard]] std::uint64_t connections() const { return connections_; }

 private:
  Context* context_;
  std::string address_;
  std::string hello_;
  Profile profile_;
  Backoff backoff_;
  std::mt19937_64 random_;
  Endpoint endpoint_;
  std::uint64_t connections_ = 0;
};

}  // namespace v0
}  // namespace rrdma::comm
