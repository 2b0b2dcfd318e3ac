// Base of the rrdma::comm tests: a context, and pairs of connected endpoints within it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "rrdma/comm/comm.h"
#include "tests/libraries/comm/patience.h"

namespace comm_test {

using namespace rrdma::comm;
using namespace std::chrono_literals;

inline const std::chrono::seconds kPatience = patience(30);

// The peer's device refused access to its memory. With injected losses, the packet that reports it may be
// lost; then only the end of the connection is seen.
inline bool refused_access(const Error& error) {
  if (error.code() == Code::kPeerGone) return std::getenv("COMM_TEST_LOSSY") != nullptr;
  return error.code() == Code::kRemoteAccess;
}

struct Pair {
  Endpoint client;
  Endpoint server;
};

class World : public ::testing::Test {
 protected:
  World() : context_(Context::open(options()).value_or_throw()) {
    listener_ = context_.listen(address_of(context_) + ":0").value_or_throw();
  }
  static ContextOptions options() {
    ContextOptions options;
    options.linger = 3s;
    return options;
  }

  [[nodiscard]] std::string address() const {
    return address_of(context_) + ":" + std::to_string(listener_.port());
  }

  Task<Pair> connected(Profile client = {}, Profile server = {}) {
    auto [near, far] = co_await when_all(context_.connect(address(), client, kPatience),
                                         listener_.accept(server, kPatience));
    co_return Pair{std::move(near).value_or_throw(), std::move(far).value_or_throw()};
  }
  Pair connect(Profile client = {}, Profile server = {}) { return context_.run(connected(client, server)); }

  template <typename T>
  T run(Task<T> task) {
    return context_.run(std::move(task));
  }
  Buffer take(std::size_t size) { return context_.pool().take(size).value_or_throw(); }
  // Polls until all closed endpoints are gone, except the listener's.
  void settle() {
    EXPECT_TRUE(context_.run_until([this] { return context_.endpoints() <= 1; }, Clock::now() + kPatience));
  }

  Context context_;
  Listener listener_;
};

}  // namespace comm_test
