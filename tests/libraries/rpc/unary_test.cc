// Calls with one argument and one result: values, sizes, statuses, metadata, concurrency.
#include <numeric>
#include <optional>
#include <vector>

#include "tests/libraries/rpc/world.h"

namespace rpc_test::unary_test {

class Unary : public World {};

TEST_F(Unary, GivesItsResult) {
  Channel channel = connect();
  auto sum = run(channel.call<&Desk::add>({40, 2}, kPatience));
  EXPECT_EQ(sum.value(), 42U);
  EXPECT_EQ(channel.calls(), 0U);
}

TEST_F(Unary, NamesAreThoseOfTheClassAndTheFunction) {
  constexpr Method method = MethodOf<&Desk::add>::method();
  static_assert(method.service == "Desk" && method.name == "add" && method.shape == Shape::kUnary);
  static_assert(method.id == method_id("Desk", "add") && method.id == hash_of("Desk/add"));
  static_assert(MethodOf<&Desk::talk>::method().shape == Shape::kBidirectional);
  static_assert(MethodOf<&Desk::add>::method().schema != MethodOf<&Desk::nap>::method().schema);
}

// Sizes around every boundary: within a frame, slightly and far beyond it, in both directions.
TEST_F(Unary, EverySize) {
  Channel channel = connect();
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{200}, std::size_t{4063}, std::size_t{4064},
        std::size_t{4065}, std::size_t{4080}, std::size_t{4081}, std::size_t{65536}, std::size_t{1000003}}) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + size);
    auto in_parts = run(channel.call<&Desk::echo>(text, kPatience));
    ASSERT_TRUE(in_parts.ok()) << size << " " << in_parts.status().what();
    EXPECT_TRUE(*in_parts == text) << size;
    auto written = run(channel.call<&Desk::echo>(text, CallOptions(kPatience).lending(size + 1)));
    ASSERT_TRUE(written.ok()) << size << " " << written.status().what();
    EXPECT_TRUE(*written == text) << size;
  }
  EXPECT_EQ(channel.calls(), 0U);
}

TEST_F(Unary, EveryStatusArrives) {
  Channel channel = connect();
  EXPECT_TRUE(run(channel.call<&Desk::fail>(0, kPatience)).ok());
  for (std::uint32_t code = 1; code <= kHighestCode; ++code) {
    const Status status = run(channel.call<&Desk::fail>(code, kPatience)).status();
    EXPECT_EQ(status.code(), static_cast<Code>(code));
    EXPECT_EQ(status.message(), "as you like it");
    EXPECT_EQ(status.details(), "details");
    EXPECT_FALSE(status.refused());
  }
}

TEST_F(Unary, AnExceptionIsAStatus) {
  Channel channel = connect();
  const Status status = run(channel.call<&Desk::raise>(kPatience)).status();
  EXPECT_EQ(status.code(), Code::kUnknown);
  EXPECT_EQ(status.message().find("out of tune"), std::string::npos) << "the text of an exception stays here";
  const Status late = run(channel.call<&Desk::raise_late>(kPatience)).status();
  EXPECT_EQ(late.message().find("out of tune"), std::string::npos);
  EXPECT_FALSE(late.message().empty());
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
}

// The text of an exception is for the server's own records.
class Recorded : public World {
 protected:
  Recorded() : World(recording()) {}
  static ServerOptions recording() {
    ServerOptions options;
    options.after = [](const Call&, const Status& status) { last_ = status; };
    return options;
  }
  static inline Status last_;
};

TEST_F(Recorded, AnException) {
  Channel channel = connect();
  EXPECT_EQ(run(channel.call<&Desk::raise>(kPatience)).status().message(), "the handler threw an exception");
  EXPECT_EQ(last_.message(), "out of tune");
}

TEST_F(Unary, MetadataGoesAndComes) {
  Channel channel = connect();
  Metadata trailers;
  auto text = run(channel.call<&Desk::echo>(
      "x",
      CallOptions(kPatience).with("who", "me").with("who", std::string(1000, 'z')).trailers_into(trailers)));
  EXPECT_EQ(text.value(), "x");
  EXPECT_EQ(trailers, Metadata().add("back-who", "me").add("back-who", std::string(1000, 'z')));
  const Status status =
      run(channel.call<&Desk::echo>("x", CallOptions(kPatience).with("large", std::string(3000, 'z'))))
          .status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
}

struct Elsewhere {
  static constexpr std::string_view kService = "Elsewhere";
  std::uint32_t nothing() { return 0; }
};
struct OtherDesk {
  static constexpr std::string_view kService = "Desk";
  static constexpr unsigned kVersion = 2;
  Result<std::uint32_t> add(const Pair&) { return 0U; }
};

TEST_F(Unary, AMethodThatTheServerHasNotOrHasInAnotherVersion) {
  Channel channel = connect();
  const Status unknown = run(channel.call<&Elsewhere::nothing>(kPatience)).status();
  EXPECT_EQ(unknown.code(), Code::kUnimplemented);
  EXPECT_TRUE(unknown.refused());
  const Status other = run(channel.call<&OtherDesk::add>({1, 2}, kPatience)).status();
  EXPECT_EQ(other.code(), Code::kUnimplemented) << other.what();
  EXPECT_NE(other.message().find("Desk/add"), std::string::npos) << other.what();
  EXPECT_EQ(desk_.calls, 0U);
}

TEST_F(Unary, VersionsAreCheckedWhenConnecting) {
  EXPECT_TRUE(connect(ChannelOptions().expecting<&Desk::add, &Desk::talk>()).open());
  auto other = run(rrdma::rpc::connect(context_, address(),
                                       ChannelOptions().expecting<&Desk::add, &OtherDesk::add>(), kPatience));
  EXPECT_EQ(other.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(other.status().message().find("Desk/add"), std::string::npos) << other.status().what();
  auto missing = run(
      rrdma::rpc::connect(context_, address(), ChannelOptions().expecting<&Elsewhere::nothing>(), kPatience));
  EXPECT_NE(missing.status().message().find("Elsewhere/nothing"), std::string::npos);
}

TEST_F(Unary, OutOfOrder) {
  Channel channel = connect();
  std::vector<std::uint32_t> order;
  const auto nap = [](Channel& on, std::uint32_t ms, std::vector<std::uint32_t>& ended) -> Task<> {
    auto slept = co_await on.call<&Desk::nap>(ms, kPatience);
    ended.push_back(slept.value());
  };
  run(when_all(nap(channel, 120, order), nap(channel, 60, order), nap(channel, 1, order)));
  EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 60, 120}));
}

TEST_F(Unary, ManyAtOnce) {
  Channel channel = connect();
  std::vector<Task<Result<std::string>>> calls;
  for (unsigned i = 0; i < 3000; ++i)
    calls.push_back(channel.call<&Desk::echo>(std::string(i % 700, static_cast<char>(i)), kPatience));
  auto results = run(when_all(std::move(calls)));
  for (unsigned i = 0; i < 3000; ++i)
    EXPECT_EQ(results[i].value(), std::string(i % 700, static_cast<char>(i)));
  EXPECT_EQ(desk_.calls, 3000U);
  EXPECT_EQ(server_.counters().good, 3000U);
}

class FewCalls : public World {
 protected:
  static ServerOptions few() {
    ServerOptions options;
    options.max_calls = 2;
    options.max_argument = 10000;
    return options;
  }
  FewCalls() : World(few()) {}
};

TEST_F(FewCalls, TheOthersWaitForTheirTurn) {
  Channel channel = connect();
  std::vector<Task<Result<std::uint32_t>>> calls;
  for (unsigned i = 0; i < 20; ++i) calls.push_back(channel.call<&Desk::nap>(2, kPatience));
  for (auto& result : run(when_all(std::move(calls)))) EXPECT_TRUE(result.ok()) << result.status().what();
}

TEST_F(FewCalls, WhoWaitsForATurnMindsItsDeadline) {
  Channel channel = connect();
  auto [a, b, c] = run(when_all(channel.call<&Desk::nap>(600, kPatience),
                                channel.call<&Desk::nap>(600, kPatience), channel.call<&Desk::nap>(1, 20ms)));
  EXPECT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(c.status().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(desk_.calls, 2U);
}

// It was offered a slot and has not taken it yet.
TEST_F(FewCalls, WhoLeavesInItsTurnLeavesItToTheNext) {
  Channel channel = connect();
  auto endless = channel.call<&Desk::nap>(120'000);
  endless.start(std::noop_coroutine());
  std::optional<Task<Result<std::uint32_t>>> leaving;
  const auto end_both = [](Channel& on, std::optional<Task<Result<std::uint32_t>>>& other) -> Task<> {
    auto ended = co_await on.call<&Desk::nap>(20, kPatience);
    EXPECT_TRUE(ended.ok());
    other.reset();
  };
  Task<> first = end_both(channel, leaving);
  first.start(std::noop_coroutine());
  leaving.emplace(channel.call<&Desk::nap>(1));
  leaving->start(std::noop_coroutine());
  const Status next = run(channel.call<&Desk::nap>(1, kPatience)).status();
  EXPECT_TRUE(next.ok()) << next.what();
  EXPECT_FALSE(leaving.has_value());
}

TEST_F(FewCalls, AnArgumentThatIsTooLarge) {
  Channel channel = connect();
  const Status status = run(channel.call<&Desk::echo>(std::string(10001, 'x'), kPatience)).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(run(channel.call<&Desk::echo>(std::string(10000, 'x'), kPatience)).value().size(), 10000U);
}

TEST_F(Unary, AResultThatIsTooLarge) {
  ChannelOptions options;
  options.max_result = 5000;
  Channel channel = connect(options);
  const Status status = run(channel.call<&Desk::echo>(std::string(5001, 'x'), kPatience)).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.what();
  EXPECT_EQ(run(channel.call<&Desk::echo>(std::string(5000, 'x'), kPatience)).value().size(), 5000U);
}

TEST_F(Unary, BulkIsReadAndWrittenWhereItLies) {
  Channel channel = connect();
  for (const std::uint32_t count : {0U, 10U, 1000U, 262144U}) {
    auto bulk = Bulk<std::uint32_t>::of(context_, count).value_or_throw();
    std::iota(bulk.begin(), bulk.end(), 0U);
    const std::uint64_t expected = std::accumulate(bulk.begin(), bulk.end(), std::uint64_t{0});
    auto sum = run(channel.call<&Desk::weigh>(std::move(bulk), kPatience));
    EXPECT_EQ(sum.value(), expected) << count;
    auto made = run(channel.call<&Desk::make>(count, CallOptions(kPatience).lending(4 * count + 4)));
    ASSERT_TRUE(made.ok()) << made.status().what();
    ASSERT_EQ(made->size(), count);
    EXPECT_EQ(std::accumulate(made->begin(), made->end(), std::uint64_t{0}), expected);
  }
}

TEST_F(Unary, MemoryComesBack) {
  Channel channel = connect();
  static_cast<void>(
      run(channel.call<&Desk::echo>(std::string(100000, 'x'), CallOptions(kPatience).lending(100001))));
  settle();
  const std::size_t before = context_.pool().in_use();
  for (int i = 0; i < 20; ++i)
    static_cast<void>(
        run(channel.call<&Desk::echo>(std::string(100000, 'x'), CallOptions(kPatience).lending(100001))));
  settle();
  EXPECT_TRUE(
      context_.run_until([&] { return context_.pool().in_use() <= before; }, Clock::now() + kPatience));
}

}  // namespace rpc_test::unary_test
