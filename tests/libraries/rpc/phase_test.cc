// Ends calls at every point of their life: by cancellation, deadline, closing the channel, or losing the
// server. A call of every kind runs poll by poll. At each poll it is ended once in each of these ways. It
// must end once, in time, with a suitable status. Other calls continue, and nothing is leaked.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "lib/rpc/frame.h"
#include "tests/libraries/rpc/world.h"

namespace rpc_test::phase_test {

namespace wire = rrdma::rpc::detail;

enum class Way { kStop, kDestroy, kDeadline, kClose, kAbort };

struct WayOfEnding {
  const char* name;
  Way way;
  Code code;  // the caller's status if the call had not ended before
};
constexpr WayOfEnding kWays[] = {{"stop", Way::kStop, Code::kCancelled},
                                 {"destroy", Way::kDestroy, Code::kCancelled},
                                 {"deadline", Way::kDeadline, Code::kDeadlineExceeded},
                                 {"close", Way::kClose, Code::kCancelled},
                                 {"abort", Way::kAbort, Code::kUnavailable}};

// ---- calls of every kind ----

using Kind = Task<Status> (*)(Channel, CallOptions);

constexpr std::size_t kLarge = 300000;

Task<Status> small(Channel on, CallOptions options) {
  auto text = co_await on.call<&Desk::echo>("small", options);
  co_return text.status();
}
// The server reads the argument and writes the result.
Task<Status> large(Channel on, CallOptions options) {
  auto text =
      co_await on.call<&Desk::echo>(std::string(kLarge, 'x'), CallOptions(options).lending(kLarge + 1));
  co_return text.status();
}
Task<Status> in_parts(Channel on, CallOptions options) {
  auto text = co_await on.call<&Desk::echo>(std::string(kLarge, 'x'), options);
  co_return text.status();
}
Task<Status> bulk(Channel on, CallOptions options) {
  auto memory = Bulk<std::uint32_t>::of(on.context(), 1 << 18).value_or_throw();
  auto sum = co_await on.call<&Desk::weigh>(std::move(memory), options);
  co_return sum.status();
}
Task<Status> handling(Channel on, CallOptions options) {
  auto slept = co_await on.call<&Desk::nap>(1, options);
  co_return slept.status();
}
// Runs until it is ended.
Task<Status> handling_for_long(Channel on, CallOptions options) {
  auto slept = co_await on.call<&Desk::nap>(60000, options);
  co_return slept.status();
}
// All slots of the server are taken when it arrives.
Task<Status> in_a_queue(Channel on, CallOptions options) {
  std::vector<Task<Result<std::uint32_t>>> before;
  for (int i = 0; i < 8; ++i) before.push_back(on.call<&Desk::nap>(1, options));
  auto both = co_await when_all(when_all(std::move(before)), on.call<&Desk::echo>("last", options));
  co_return std::get<1>(both).status();
}
Task<Status> results(Channel on, CallOptions options) {
  auto rows = co_await on.call<&Desk::count>(Range{200, 1000}, options);
  if (!rows.ok()) co_return rows.status();
  unsigned count = 0;
  for (;; ++count) {
    auto row = co_await rows->read();
    if (!row) break;
  }
  EXPECT_TRUE(!rows->status().ok() || count == 200) << count;
  co_return rows->status();
}
Task<Status> arguments(Channel on, CallOptions options) {
  auto numbers = co_await on.call<&Desk::sum>(options);
  if (!numbers.ok()) co_return numbers.status();
  Status sent;
  for (std::uint32_t i = 0; i < 3000 && sent.ok(); ++i) sent = co_await numbers->write(i);
  auto sum = co_await numbers->finish();
  co_return sum.status();
}
Task<Status> both(Channel on, CallOptions options) {
  auto talk = co_await on.call<&Desk::talk>(options);
  if (!talk.ok()) co_return talk.status();
  for (int i = 0; i < 4; ++i) {
    Status sent = co_await talk->write(std::string(50000, 'x'));
    if (!sent.ok()) break;
    auto back = co_await talk->read();
    if (!back) break;
  }
  Status ended = co_await talk->finish();
  co_return ended;
}
// Uses a separate channel.
Task<Status> connecting(Channel on, CallOptions options) {
  auto channel = co_await rrdma::rpc::connect(on.context(), on.peer(),
                                              ChannelOptions().expecting<&Desk::add>(), options.limit);
  co_return channel.status();
}

// ---- the world ----

class Phases : public World {
 protected:
  Phases() : World(counting()), good_(context_) {
    add_all(good_, good_desk_);
    EXPECT_TRUE(good_.listen(address_of(context_) + ":0").ok());
    beside_.emplace(run(rrdma::rpc::connect(context_, good_.address(), {}, kPatience)).value_or_throw());
    elsewhere_.emplace(talk_on(*beside_));
  }
  static ServerOptions counting() {
    replied_ = 0;
    ServerOptions options;
    options.max_calls = 8;
    options.after = [](const Call&, const Status&) { ++replied_; };
    return options;
  }
  Channel connect_counting() {
    ChannelOptions options;
    options.after = [this](const Method&, const Status&, std::chrono::nanoseconds) { ++ended_; };
    return connect(options);
  }
  Conversation<std::string, std::string> talk_on(Channel& channel) {
    return run(channel.call<&Desk::talk>()).value_or_throw();
  }
  // A call that started earlier and is not ended.
  void expect_going_on(Conversation<std::string, std::string>& talk, const std::string& where) {
    const auto say = [](Conversation<std::string, std::string>& on) -> Task<std::string> {
      Status sent = co_await on.write("still there", kPatience);
      auto back = co_await on.read(kPatience);
      co_return back.value_or(sent.what());
    };
    EXPECT_EQ(run(say(talk)), "still there!") << where;
  }
  bool soon(const std::function<bool()>& condition) {
    return context_.run_until(condition, Clock::now() + kPatience);
  }

  // Ends a call of this kind after this many polls. Returns whether it had ended by itself before.
  bool end_after(unsigned polls, Kind kind, const WayOfEnding& way, Channel& channel,
                 const std::string& where);
  void sweep(const char* name, Kind kind, bool connects = false);
  void renew_server() {
    EXPECT_EQ(replied_, server_.counters().calls);
    server_ = Server(context_, counting());
    add_all(server_, desk_);
    EXPECT_TRUE(server_.listen(address_of(context_) + ":0").ok());
  }

  static constexpr auto kShort = 3ms;
  inline static unsigned replied_ = 0;
  unsigned ended_ = 0;
  Desk good_desk_;
  Server good_;
  std::optional<Channel> beside_;
  std::optional<Conversation<std::string, std::string>> elsewhere_;
};

bool Phases::end_after(unsigned polls, Kind kind, const WayOfEnding& way, Channel& channel,
                       const std::string& where) {
  std::stop_source stop;
  const auto deadline = Clock::now() + kShort;
  Limit limit(kPatience);
  if (way.way == Way::kStop) limit = Limit(stop.get_token());
  if (way.way == Way::kDeadline) limit = Limit(deadline);
  auto task = std::make_optional(kind(channel, limit));
  task->start(std::noop_coroutine());
  for (unsigned i = 0; i < polls && !task->done(); ++i) context_.poll();
  const bool finished = task->done();
  switch (way.way) {
    case Way::kStop: stop.request_stop(); break;
    case Way::kDestroy: task.reset(); break;
    case Way::kDeadline: std::this_thread::sleep_until(deadline); break;
    case Way::kClose: channel.close(); break;
    case Way::kAbort: server_.abort(); break;
  }
  if (task) {
    EXPECT_TRUE(context_.run_until([&] { return task->done(); }, Clock::now() + kPatience)) << where;
    if (task->done()) {
      const Status status = task->take();
      EXPECT_TRUE(status.ok() || (status.code() == way.code && !(finished && way.way != Way::kDeadline)))
          << where << ": " << status.what();
    }
  }
  return finished;
}

void Phases::sweep(const char* name, Kind kind, bool connects) {
  for (const WayOfEnding& way : kWays) {
    if (connects && (way.way == Way::kClose || way.way == Way::kAbort)) continue;
    const bool over = way.way == Way::kClose || way.way == Way::kAbort;
    std::optional<Channel> channel;
    std::optional<Conversation<std::string, std::string>> aside;
    std::size_t memory = 0;
    bool finished = false;
    for (unsigned polls = 0; !finished && polls < 3000; polls += 1 + (polls > 12 ? polls / 2 : 0)) {
      const std::string where =
          std::string(name) + ", " + way.name + " after " + std::to_string(polls) + " polls";
      if (!channel) {
        channel.emplace(connect_counting());
        if (!over) aside.emplace(talk_on(*channel));
      }
      if (memory == 0) memory = context_.pool().in_use();
      const unsigned before = ended_;
      finished = end_after(polls, kind, way, *channel, where);
      expect_going_on(*elsewhere_, where);
      if (aside) expect_going_on(*aside, where);
      EXPECT_TRUE(soon([&] { return channel->calls() == (aside ? 1U : 0U); }))
          << where << ": calls without an end";
      EXPECT_TRUE(soon([&] { return server_.calls() == (aside ? 1U : 0U); }))
          << where << ": handlers without an end";
      EXPECT_LE(ended_ - before, kind == &in_a_queue ? 9U : 1U) << where << ": it ended more than once";
      if (over) channel.reset();
      if (way.way == Way::kAbort) renew_server();
      EXPECT_TRUE(soon([&] { return server_.connections() == (over ? 0U : 1U); })) << where;
      EXPECT_TRUE(soon([&] { return context_.pool().in_use() <= memory; }))
          << where << ": memory stays behind";
      if (HasFailure()) return;
    }
    aside.reset();
    channel.reset();
    EXPECT_TRUE(soon([&] { return server_.calls() == 0 && server_.connections() == 0; }));
    EXPECT_EQ(replied_, server_.counters().calls) << name << ": every call that was begun has one end";
    EXPECT_EQ(server_.counters().broken, 0U);
  }
}

TEST_F(Phases, ASmallCall) { sweep("small", &small); }
TEST_F(Phases, ALargeCall) { sweep("large", &large); }
TEST_F(Phases, ALargeCallWhoseResultComesInParts) { sweep("in parts", &in_parts); }
TEST_F(Phases, ABulk) { sweep("bulk", &bulk); }
TEST_F(Phases, AHandlerThatRuns) { sweep("handling", &handling); }
TEST_F(Phases, AHandlerThatDoesNotEnd) { sweep("handling for long", &handling_for_long); }
TEST_F(Phases, ACallThatWaitsForItsTurn) { sweep("in a queue", &in_a_queue); }
TEST_F(Phases, AStreamOfResults) { sweep("results", &results); }
TEST_F(Phases, AStreamOfArguments) { sweep("arguments", &arguments); }
TEST_F(Phases, AConversation) { sweep("both", &both); }
TEST_F(Phases, AConnectionThatComesUp) { sweep("connecting", &connecting, true); }

// The call has started, but its handler has not. The polls above may miss this: the call may arrive in one
// poll and its whole argument in the next.
TEST_F(Phases, TheArgumentIsBeingRead) {
  Channel channel = connect();
  for (unsigned further = 0; further < 8; ++further) {
    const std::uint64_t begun = server_.counters().calls;
    const unsigned handled = desk_.calls;
    auto call = std::make_optional(channel.call<&Desk::echo>(std::string(1 << 20, 'x')));
    call->start(std::noop_coroutine());
    const auto end = Clock::now() + kPatience;
    while (server_.counters().calls == begun && Clock::now() < end) context_.poll();
    EXPECT_EQ(server_.counters().calls, begun + 1);
    EXPECT_EQ(desk_.calls, handled) << "its argument cannot be there yet";
    for (unsigned i = 0; i < further && !call->done(); ++i) context_.poll();
    call.reset();
    EXPECT_TRUE(soon([&] { return channel.calls() == 0 && server_.calls() == 0; }));
  }
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
}

// ---- a silent server ----

class Silence : public World {
 protected:
  // A channel to a peer that completed the handshake and receives nothing.
  Channel connect_to_silence() {
    wire::ServerHello hello;
    hello.max_calls = 200;
    hello.max_argument = 1 << 20;
    hello.window = 1 << 20;
    const auto octets = wire::emit(hello);
    rrdma::comm::Profile profile;
    profile.hello = octets;
    listener_ = context_.listen(address_of(context_) + ":0").value_or_throw();
    auto [channel, end] = run(when_all(rrdma::rpc::connect(context_, listener_.address(), {}, kPatience),
                                       listener_.accept(profile, kPatience)));
    end_ = std::move(end).value_or_throw();
    return std::move(channel).value_or_throw();
  }
  // The result of a call; kUnknown if it did not end.
  Code end_of(Task<Status> call) {
    call.start(std::noop_coroutine());
    const bool ended = context_.run_until([&] { return call.done(); }, Clock::now() + kPatience);
    return ended ? call.take().code() : Code::kUnknown;
  }

  rrdma::comm::Listener listener_;
  rrdma::comm::Endpoint end_;
};

TEST_F(Silence, DeadlinesEndUnaryCalls) {
  Channel channel = connect_to_silence();
  std::vector<Task<Result<std::string>>> calls;
  // More than the silent server has room for: the later ones are not sent yet.
  for (int i = 0; i < 150; ++i) calls.push_back(channel.call<&Desk::echo>("x", 50ms));
  calls.push_back(channel.call<&Desk::echo>(std::string(100000, 'x'), CallOptions(50ms).lending(100000)));
  const auto begin = Clock::now();
  for (auto& result : run(when_all(std::move(calls))))
    EXPECT_EQ(result.status().code(), Code::kDeadlineExceeded) << result.status().what();
  EXPECT_LT(Clock::now() - begin, kPatience);
}

// The deadline applies to the call, not to single reads and writes.
TEST_F(Silence, DeadlinesEndStreams) {
  Channel channel = connect_to_silence();
  EXPECT_EQ(end_of(results(channel, 50ms)), Code::kDeadlineExceeded);
  EXPECT_EQ(end_of(arguments(channel, 50ms)), Code::kDeadlineExceeded);
  EXPECT_EQ(end_of(both(channel, 50ms)), Code::kDeadlineExceeded);
  std::stop_source stop;
  auto reading = results(channel, Limit(stop.get_token()));
  reading.start(std::noop_coroutine());
  std::thread([&] { stop.request_stop(); }).join();
  EXPECT_TRUE(context_.run_until([&] { return reading.done(); }, Clock::now() + kPatience));
  EXPECT_EQ(reading.take().code(), Code::kCancelled);
}

TEST_F(Silence, DeadlinesEndConnecting) {
  auto listener = context_.listen(address_of(context_) + ":0").value_or_throw();
  const auto begin = Clock::now();
  EXPECT_EQ(run(rrdma::rpc::connect(context_, listener.address(), {}, 50ms)).status().code(),
            Code::kDeadlineExceeded);
  EXPECT_LT(Clock::now() - begin, kPatience);
}

}  // namespace rpc_test::phase_test
