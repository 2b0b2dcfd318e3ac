// Base of the rrdma::rpc tests: a server and channels to it in one context, and a service with all kinds of
// methods.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "rrdma/rpc/rpc.h"
#include "tests/libraries/comm/patience.h"

namespace rpc_test {

using namespace std::chrono_literals;
using namespace rrdma::rpc;
using comm_test::address_of;
using rrdma::comm::Clock;
using rrdma::comm::Context;
using rrdma::comm::ContextOptions;
using rrdma::comm::Limit;
using rrdma::comm::Scope;
using rrdma::comm::Task;
using rrdma::comm::when_all;

inline const std::chrono::seconds kPatience = comm_test::patience(30);

struct Pair {
  std::uint32_t first;
  std::uint32_t second;
};
struct Block {
  std::array<std::uint8_t, 1000> octets;
};
struct Range {
  std::uint32_t count;
  std::uint32_t size;
};

// Everything that a handler can do.
class Desk {
 public:
  Result<std::uint32_t> add(const Pair& pair) {
    ++calls;
    return pair.first + pair.second;
  }
  Task<Result<std::string>> echo(Call& call, const std::string& text) {
    ++calls;
    for (const auto& [name, value] : call.metadata()) call.trailers().add("back-" + name, value);
    co_return text;
  }
  // Sleeps for this many milliseconds, within its limit.
  Task<Result<std::uint32_t>> nap(Call& call, const std::uint32_t& ms) {
    ++calls;
    auto slept = co_await call.context().sleep(std::chrono::milliseconds(ms), call.stop());
    if (!slept) ++cancelled;
    if (call.cancelled()) co_return Status(Code::kCancelled, "not wanted any more");
    co_return ms;
  }
  // Ends with the given status and details.
  Status fail(const std::uint32_t& code) { return {static_cast<Code>(code), "as you like it", "details"}; }
  void raise() { throw std::runtime_error("out of tune"); }
  // Throws from a coroutine, after a while.
  Task<Result<std::uint32_t>> raise_late(Call& call) {
    const auto slept = co_await call.context().sleep(std::chrono::milliseconds(1));
    if (slept) raise();
    co_return 0U;
  }
  std::uint64_t left(Call& call) {
    if (call.deadline() == Clock::time_point::max()) return 0;
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(call.deadline() - Clock::now()).count());
  }

  Task<Status> count(Call&, const Range& range, Writer<std::string>& out) {
    for (std::uint32_t i = 0; i < range.count; ++i) {
      std::string item(range.size, static_cast<char>('a' + i % 26));
      Status sent = co_await out.write(item);
      if (!sent.ok()) {
        ++cancelled;
        co_return sent;
      }
      ++written;
    }
    co_return Status();
  }
  Task<Result<std::uint64_t>> sum(Call&, Reader<std::uint32_t>& in) {
    std::uint64_t sum = 0;
    for (;;) {
      auto item = co_await in.read();
      if (!item) break;
      sum += *item;
    }
    if (!in.status().ok()) {
      ++cancelled;
      co_return in.status();
    }
    co_return sum;
  }
  Task<Status> talk(Call&, Reader<std::string>& in, Writer<std::string>& out) {
    for (;;) {
      auto item = co_await in.read();
      if (!item) co_return in.status();
      Status sent = co_await out.write(*item + "!");
      if (!sent.ok()) co_return sent;
    }
  }

  // Reads nothing until it is cancelled.
  Task<Result<Empty>> nothing_read(Call& call, Reader<std::string>&) {
    static_cast<void>(co_await call.context().sleep(120s, call.stop()));
    ++cancelled;
    co_return Empty{};
  }
  Task<Result<std::uint32_t>> first_only(Call&, Reader<std::uint32_t>& in) {
    auto first = co_await in.read();
    co_return first.value_or(0);
  }

  Result<std::uint64_t> weigh(Bulk<std::uint32_t> bulk) {
    std::uint64_t sum = 0;
    for (const std::uint32_t item : bulk) sum += item;
    return sum;
  }
  Result<Bulk<std::uint32_t>> make(Call& call, const std::uint32_t& count) {
    auto bulk = Bulk<std::uint32_t>::of(call.context(), count);
    if (!bulk) return bulk.error();
    for (std::uint32_t i = 0; i < count; ++i) (*bulk)[i] = i;
    return std::move(*bulk);
  }

  unsigned calls = 0;
  unsigned cancelled = 0;
  unsigned written = 0;
};

inline void add_all(Server& server, Desk& desk) {
  server.add<&Desk::add>(desk);
  server.add<&Desk::echo>(desk);
  server.add<&Desk::nap>(desk);
  server.add<&Desk::fail>(desk);
  server.add<&Desk::raise>(desk);
  server.add<&Desk::raise_late>(desk);
  server.add<&Desk::left>(desk);
  server.add<&Desk::count>(desk);
  server.add<&Desk::sum>(desk);
  server.add<&Desk::talk>(desk);
  server.add<&Desk::nothing_read>(desk);
  server.add<&Desk::first_only>(desk);
  server.add<&Desk::weigh>(desk);
  server.add<&Desk::make>(desk);
}

// With RPC_TEST_ENCRYPTED, ends without a secret of their own encrypt, so that every test covers that, too.
template <typename Options>
Options usual(Options options) {
  if (options.secret.empty() && std::getenv("RPC_TEST_ENCRYPTED") != nullptr) {
    options.secret = "of the tests";
    options.encryption = Encryption::kAlways;
  }
  return options;
}

class World : public ::testing::Test {
 protected:
  explicit World(const ServerOptions& server_options = {})
      : context_(Context::open(options()).value_or_throw()), server_(context_, usual(server_options)) {
    add_all(server_, desk_);
    const Status listening = server_.listen(address_of(context_) + ":0");
    if (!listening.ok()) throw std::runtime_error(listening.what());
  }
  static ContextOptions options() {
    ContextOptions options;
    options.linger = 3s;
    return options;
  }

  [[nodiscard]] std::string address() const { return std::string(server_.address()); }
  Channel connect(ChannelOptions channel_options = {}) {
    return run(rrdma::rpc::connect(context_, address(), usual(std::move(channel_options)), kPatience))
        .value_or_throw();
  }
  template <typename T>
  T run(Task<T> task) {
    return context_.run(std::move(task));
  }
  // Polls until no handler runs.
  void settle() {
    EXPECT_TRUE(context_.run_until([this] { return server_.calls() == 0; }, Clock::now() + kPatience));
  }

  Context context_;
  Desk desk_;
  Server server_;
};

}  // namespace rpc_test
