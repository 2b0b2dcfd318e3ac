// Streams that are used after their call was cancelled or has ended: they are inert, and never touch the call
// that has their slot next.
#include <memory>
#include <optional>

#include "tests/libraries/rpc/world.h"

namespace rpc_test {

// A service whose handlers leave copies of their streams behind.
struct Careless {
  Task<Status> give(Call&, const std::uint32_t& count, Writer<std::uint32_t>& out) {
    writer.emplace(out);
    for (std::uint32_t i = 0; i < count; ++i) {
      Status sent = co_await out.write(i);
      if (!sent.ok()) co_return sent;
    }
    co_return Status();
  }
  Task<Result<std::uint64_t>> sum(Call&, Reader<std::uint32_t>& in) {
    reader.emplace(in);
    std::uint64_t sum = 0;
    for (;;) {
      auto item = co_await in.read();
      if (!item) co_return sum;
      sum += *item;
    }
  }
  std::optional<Writer<std::uint32_t>> writer;
  std::optional<Reader<std::uint32_t>> reader;
};

namespace handle_test {

class Handles : public World {
 protected:
  Handles() {
    server_.add<&Careless::give>(careless_);
    server_.add<&Careless::sum>(careless_);
  }
  // Polls until the next call gets the slot of the last one.
  void free_slots(const Channel& channel) {
    EXPECT_TRUE(context_.run_until([&] { return channel.calls() == 0; }, Clock::now() + kPatience));
    settle();
  }
  Careless careless_;
};

TEST_F(Handles, OfACancelledCallWriteNothingIntoTheNext) {
  Channel channel = connect();
  auto first = run(channel.call<&Desk::sum>()).value_or_throw();
  EXPECT_TRUE(run(first.write(1, kPatience)).ok());
  first.cancel();
  free_slots(channel);
  auto second = run(channel.call<&Desk::sum>()).value_or_throw();
  EXPECT_EQ(run(first.write(100000, kPatience)).code(), Code::kCancelled);
  EXPECT_EQ(run(first.finish(kPatience)).status().code(), Code::kCancelled);
  EXPECT_TRUE(first.trailers().empty());
  EXPECT_TRUE(run(second.write(10, kPatience)).ok());
  EXPECT_EQ(run(second.finish(kPatience)).value(), 10U);
}

// The write was prepared before the cancellation, and is awaited after it.
TEST_F(Handles, OfACancelledCallSendNothingThatWasPrepared) {
  Channel channel = connect();
  auto first = run(channel.call<&Desk::sum>()).value_or_throw();
  auto writing = first.write(100000, kPatience);
  first.cancel();
  free_slots(channel);
  auto second = run(channel.call<&Desk::sum>()).value_or_throw();
  EXPECT_EQ(run(std::move(writing)).code(), Code::kCancelled);
  EXPECT_EQ(run(second.finish(kPatience)).value(), 0U);
}

TEST_F(Handles, OfACancelledCallReadNothingOfTheNext) {
  Channel channel = connect();
  auto first = run(channel.call<&Desk::count>(Range{100000, 8}, kPatience)).value_or_throw();
  EXPECT_TRUE(run(first.read(kPatience)).has_value());
  first.cancel();
  free_slots(channel);
  auto second = run(channel.call<&Desk::count>(Range{5, 8}, kPatience)).value_or_throw();
  context_.run_until([] { return false; }, Clock::now() + 50ms);  // its items are here
  EXPECT_FALSE(run(first.read(kPatience)).has_value());
  EXPECT_EQ(first.status().code(), Code::kCancelled);
  for (char letter = 'a'; letter < 'f'; ++letter)
    EXPECT_EQ(run(second.read(kPatience)).value_or("none"), std::string(8, letter));
  EXPECT_FALSE(run(second.read(kPatience)).has_value());
  EXPECT_TRUE(second.status().ok()) << second.status().what();
}

// Otherwise a truncated stream would look complete.
TEST_F(Handles, ThatWaitEndWithCancelled) {
  Channel channel = connect();
  run([](Context& context, Channel& on) -> Task<> {
    auto talk = (co_await on.call<&Desk::talk>()).value_or_throw();
    const auto cancel = [](Context& within, Conversation<std::string, std::string>& stream) -> Task<> {
      static_cast<void>(co_await within.sleep(20ms));
      stream.cancel();
    };
    auto [item, none] = co_await when_all(talk.read(kPatience), cancel(context, talk));
    EXPECT_FALSE(item.has_value());
    EXPECT_EQ(talk.status().code(), Code::kCancelled) << talk.status().what();
  }(context_, channel));
}

TEST_F(Handles, ThatAwaitTheReplyEndWithCancelled) {
  Channel channel = connect();
  run([](Context& context, Channel& on) -> Task<> {
    auto stream = (co_await on.call<&Desk::nothing_read>()).value_or_throw();
    const auto cancel = [](Context& within, ArgumentStream<std::string, Empty>& of) -> Task<> {
      static_cast<void>(co_await within.sleep(20ms));
      of.cancel();
    };
    const auto begin = Clock::now();
    auto [ended, none] = co_await when_all(stream.finish(kPatience), cancel(context, stream));
    EXPECT_EQ(ended.status().code(), Code::kCancelled) << ended.status().what();
    EXPECT_LT(Clock::now() - begin, kPatience / 2) << "it is resumed at once";
  }(context_, channel));
}

TEST_F(Handles, OfNoConnectionSaySo) {
  Channel none;
  EXPECT_EQ(run(none.call<&Desk::add>({1, 2}, kPatience)).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(run(none.call<&Desk::sum>()).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(run(none.call<&Desk::weigh>(Bulk<std::uint32_t>(), kPatience)).status().code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(none.calls(), 0U);
  EXPECT_EQ(none.peer(), "");
  EXPECT_FALSE(none.open());
  none.close();
}

TEST_F(Handles, OutliveTheirChannel) {
  Channel channel = connect();
  auto talk = run(channel.call<&Desk::talk>()).value_or_throw();
  talk.cancel();
  channel = Channel();
  settle();
  EXPECT_EQ(run(talk.write("late", kPatience)).code(), Code::kCancelled);
  EXPECT_FALSE(run(talk.read(kPatience)).has_value());
  EXPECT_EQ(talk.status().code(), Code::kCancelled);
  EXPECT_EQ(talk.writes_done().code(), Code::kCancelled);
  EXPECT_EQ(run(talk.finish(kPatience)).code(), Code::kCancelled);
}

TEST_F(Handles, OfAHandlerThatHasEndedWriteNothingIntoTheNextCall) {
  Channel channel = connect();
  auto first = run(channel.call<&Careless::give>(1U, kPatience)).value_or_throw();
  EXPECT_TRUE(run(first.finish(kPatience)).ok());
  settle();
  auto late = *careless_.writer;
  auto second = run(channel.call<&Careless::give>(3U, kPatience)).value_or_throw();
  EXPECT_EQ(run(late.write(4711U, kPatience)).code(), Code::kCancelled);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(run(second.read(kPatience)).value_or(99), i);
  EXPECT_FALSE(run(second.read(kPatience)).has_value());
  EXPECT_TRUE(second.status().ok());
}

TEST_F(Handles, OfAHandlerThatHasEndedReadNothingOfTheNextCall) {
  Channel channel = connect();
  auto first = run(channel.call<&Careless::sum>()).value_or_throw();
  EXPECT_EQ(run(first.finish(kPatience)).value(), 0U);
  settle();
  auto late = *careless_.reader;
  auto second = run(channel.call<&Careless::sum>()).value_or_throw();
  EXPECT_TRUE(context_.run_until([&] { return server_.calls() == 1; }, Clock::now() + kPatience));
  EXPECT_FALSE(run(late.read(Limit(100ms))).has_value());
  EXPECT_EQ(late.status().code(), Code::kCancelled) << late.status().what();
  EXPECT_TRUE(run(second.write(7, kPatience)).ok());
  EXPECT_EQ(run(second.finish(kPatience)).value(), 7U);
}

}  // namespace handle_test
}  // namespace rpc_test
