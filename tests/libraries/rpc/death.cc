// Servers and clients that are killed or stopped while calls of every kind wait. `serve` serves, `hold`
// also ends when it has lost its client and has back what it held for it. `wait` makes calls in every
// phase and prints "waiting". It succeeds if every call ends once, with kUnavailable. `move` makes calls
// until the last one of its addresses answers.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "rrdma/rpc/rpc.h"

using namespace rrdma;
using namespace std::chrono_literals;

namespace {

constexpr auto kPatience = 30s;

struct Sloth {
  static constexpr std::array<std::string_view, 1> kIdempotent = {"where"};
  std::string address;

  std::string where() { return address; }
  comm::Task<rpc::Result<rpc::Empty>> rest(rpc::Call& call, const std::string&) {
    static_cast<void>(co_await call.context().sleep(1h, call.stop()));
    co_return rpc::Empty{};
  }
  comm::Task<rpc::Status> drip(rpc::Call& call, const std::uint32_t& items, rpc::Writer<std::uint32_t>& out) {
    for (std::uint32_t i = 0; i < items; ++i) {
      rpc::Status sent = co_await out.write(i);
      if (!sent.ok()) co_return sent;
    }
    static_cast<void>(co_await call.context().sleep(1h, call.stop()));
    co_return rpc::Status();
  }
  comm::Task<rpc::Result<rpc::Empty>> ignore(rpc::Call& call, rpc::Reader<std::string>&) {
    static_cast<void>(co_await call.context().sleep(1h, call.stop()));
    co_return rpc::Empty{};
  }
};

comm::Task<> serve(comm::Context& context, const char* address, bool until_free) {
  Sloth sloth{address};
  rpc::ServerOptions options;
  options.keep_alive = 500ms;
  rpc::Server server(context, options);
  server.add<&Sloth::where>(sloth);
  server.add<&Sloth::rest>(sloth);
  server.add<&Sloth::drip>(sloth);
  server.add<&Sloth::ignore>(sloth);
  const rpc::Status listening = server.listen(address);
  if (!listening.ok()) throw rpc::Failure(listening);
  const std::size_t memory = context.pool().in_use();
  std::printf("listening\n");
  std::fflush(stdout);
  const auto holds = [&] {
    return server.connections() != 0 || server.calls() != 0 || context.pool().in_use() > memory;
  };
  while (!holds()) static_cast<void>(co_await context.sleep(20ms));
  while (holds() || !until_free) static_cast<void>(co_await context.sleep(20ms));
}

void judge(const char* phase, const rpc::Status& status, int& wrong) {
  if (status.code() == rpc::Code::kUnavailable) return;
  std::printf("%s: %s\n", phase, status.what().c_str());
  ++wrong;
}

comm::Task<> unary(rpc::Channel& on, const char* phase, std::size_t size, int& wrong) {
  auto rested = co_await on.call<&Sloth::rest>(std::string(size, 'x'), kPatience);
  judge(phase, rested.status(), wrong);
}
comm::Task<> reading(rpc::Channel& on, int& wrong) {
  auto drops = (co_await on.call<&Sloth::drip>(10U, kPatience)).value_or_throw();
  for (;;) {
    auto drop = co_await drops.read(kPatience);
    if (!drop) break;
  }
  judge("reading", drops.status(), wrong);
}
comm::Task<> writing(rpc::Channel& on, int& wrong) {
  auto pages = (co_await on.call<&Sloth::ignore>(kPatience)).value_or_throw();
  rpc::Status sent;
  while (sent.ok()) sent = co_await pages.write(std::string(1000, 'x'), kPatience);
  judge("writing", sent, wrong);
  auto ended = co_await pages.finish(kPatience);
  judge("after writing", ended.status(), wrong);
}
comm::Task<> idle(comm::Context& context, const char* address, const rpc::ChannelOptions& options) {
  auto connected = co_await rpc::connect(context, address, options, 10s);
  co_await connected.value_or_throw().until_lost();
}
comm::Task<> announce(comm::Context& context) {
  static_cast<void>(co_await context.sleep(300ms));
  std::printf("waiting\n");
  std::fflush(stdout);
}

comm::Task<> wait(comm::Context& context, const char* address, int& wrong) {
  rpc::ChannelOptions options;
  options.keep_alive = 500ms;
  auto connected = co_await rpc::connect(context, address, options, 10s);
  rpc::Channel channel = std::move(connected).value_or_throw();
  co_await comm::when_all(unary(channel, "small", 10, wrong), unary(channel, "large", 100000, wrong),
                          reading(channel, wrong), writing(channel, wrong), idle(context, address, options),
                          announce(context));
  auto late = co_await channel.call<&Sloth::rest>("late", kPatience);
  judge("after the end", late.status(), wrong);
}

// Calls through a Client until the second address answers. Prints each change, and the longest call.
comm::Task<> move(comm::Context& context, std::vector<std::string> addresses) {
  rpc::ClientOptions options;
  options.channel.keep_alive = 500ms;
  rpc::Client client(context, addresses, options);
  std::string last;
  std::chrono::duration<double> longest{};
  while (last != addresses.back()) {
    const auto begin = comm::Clock::now();
    auto where = co_await client.call<&Sloth::where>(kPatience);
    longest = std::max<std::chrono::duration<double>>(longest, comm::Clock::now() - begin);
    if (where.value_or_throw() != last) std::printf("%s\n", where->c_str());
    std::fflush(stdout);
    last = *where;
    static_cast<void>(co_await context.sleep(5ms));
  }
  std::printf("the longest call took %.2f s\n", longest.count());
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view role = count > 2 ? words[1] : "";
  comm::Context context = comm::Context::open().value_or_throw();
  int wrong = 0;
  if (role == "serve") {
    context.run(serve(context, words[2], false));
  } else if (role == "hold") {
    context.run(serve(context, words[2], true));
  } else if (role == "wait") {
    context.run(wait(context, words[2], wrong));
  } else if (role == "move") {
    context.run(move(context, {words + 2, words + count}));
  } else {
    return std::fprintf(stderr, "usage: death serve|hold|wait ADDRESS\n       death move ADDRESS...\n"), 2;
  }
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
