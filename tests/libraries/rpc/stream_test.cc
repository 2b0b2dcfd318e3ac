// Streams of all three kinds: order, ends, flow control, cancellation at every point.
#include "tests/libraries/rpc/world.h"

namespace rpc_test::stream_test {

class Streams : public World {};

TEST_F(Streams, OfResults) {
  Channel channel = connect();
  run([](Channel& on) -> Task<> {
    auto rows = (co_await on.call<&Desk::count>(Range{1000, 100}, kPatience)).value_or_throw();
    unsigned seen = 0;
    for (;;) {
      auto row = co_await rows.read(kPatience);
      if (!row) break;
      EXPECT_EQ(*row, std::string(100, static_cast<char>('a' + seen % 26)));
      ++seen;
    }
    EXPECT_EQ(seen, 1000U);
    EXPECT_TRUE(rows.status().ok()) << rows.status().what();
    Status ended = co_await rows.finish(kPatience);
    EXPECT_TRUE(ended.ok());
  }(channel));
}

TEST_F(Streams, IntoOneItem) {
  Channel channel = connect();
  run([](Channel& on) -> Task<> {
    auto rows = (co_await on.call<&Desk::count>(Range{50, 5000}, kPatience)).value_or_throw();
    unsigned seen = 0;
    std::string row;
    const char* memory = nullptr;
    while (co_await rows.read_into(row, kPatience)) {
      EXPECT_EQ(row, std::string(5000, static_cast<char>('a' + seen % 26)));
      if (seen++ == 0) memory = row.data();
      EXPECT_EQ(row.data(), memory);
    }
    EXPECT_EQ(seen, 50U);
    EXPECT_TRUE(rows.status().ok()) << rows.status().what();
  }(channel));
}

TEST_F(Streams, OfNothing) {
  Channel channel = connect();
  run([](Channel& on) -> Task<> {
    auto rows = (co_await on.call<&Desk::count>(Range{0, 0}, kPatience)).value_or_throw();
    auto none = co_await rows.read(kPatience);
    EXPECT_FALSE(none.has_value());
    EXPECT_TRUE(rows.status().ok());
    auto empty = (co_await on.call<&Desk::count>(Range{5, 0}, kPatience)).value_or_throw();
    for (int i = 0; i < 5; ++i) {
      auto item = co_await empty.read(kPatience);
      EXPECT_EQ(item.value_or("missing"), "");
    }
    auto numbers = (co_await on.call<&Desk::sum>()).value_or_throw();
    auto sum = co_await numbers.finish(kPatience);
    EXPECT_EQ(sum.value(), 0U);
  }(channel));
}

// Items larger than a frame, and larger than the window.
TEST_F(Streams, OfLargeItems) {
  Channel channel = connect();
  run([](Channel& on) -> Task<> {
    auto rows = (co_await on.call<&Desk::count>(Range{3, 300000}, kPatience)).value_or_throw();
    for (char letter = 'a'; letter < 'd'; ++letter) {
      auto row = co_await rows.read(kPatience);
      EXPECT_TRUE(row.has_value() && *row == std::string(300000, letter));
    }
    auto talk = (co_await on.call<&Desk::talk>()).value_or_throw();
    const std::string large(200000, 'z');
    Status sent = co_await talk.write(large, kPatience);
    EXPECT_TRUE(sent.ok()) << sent.what();
    auto back = co_await talk.read(kPatience);
    EXPECT_TRUE(back.has_value() && *back == large + "!");
    Status ended = co_await talk.finish(kPatience);
    EXPECT_TRUE(ended.ok()) << ended.what();
  }(channel));
}

TEST_F(Streams, OfArguments) {
  Channel channel = connect();
  run([](Channel& on) -> Task<> {
    auto numbers = (co_await on.call<&Desk::sum>()).value_or_throw();
    std::uint64_t expected = 0;
    for (std::uint32_t i = 0; i < 5000; ++i) {
      Status sent = co_await numbers.write(i, kPatience);
      EXPECT_TRUE(sent.ok());
      expected += i;
    }
    auto sum = co_await numbers.finish(kPatience);
    EXPECT_EQ(sum.value(), expected);
    Status late = co_await numbers.write(1, kPatience);
    EXPECT_FALSE(late.ok());
  }(channel));
}

TEST_F(Streams, OfBoth) {
  Channel channel = connect();
  run([](Channel& on) -> Task<> {
    auto talk = (co_await on.call<&Desk::talk>()).value_or_throw();
    for (int i = 0; i < 300; ++i) {
      Status sent = co_await talk.write(std::to_string(i), kPatience);
      EXPECT_TRUE(sent.ok());
      auto back = co_await talk.read(kPatience);
      EXPECT_EQ(back.value_or(""), std::to_string(i) + "!");
    }
    Status ended = co_await talk.finish(kPatience);
    EXPECT_TRUE(ended.ok());
  }(channel));
}

// A reader that does not read blocks its writer, and no other call.
TEST_F(Streams, ASlowReaderHoldsItsWriterBackAlone) {
  Channel channel = connect();
  run([](Context& context, Channel& on, Desk& desk) -> Task<> {
    auto rows = (co_await on.call<&Desk::count>(Range{100000, 1000}, kPatience)).value_or_throw();
    static_cast<void>(co_await context.sleep(50ms));
    const unsigned written = desk.written;
    EXPECT_LT(written, 100U) << "64 KiB are 63 items";
    for (int i = 0; i < 100; ++i) {
      auto sum = co_await on.call<&Desk::add>({1, 2}, kPatience);
      EXPECT_EQ(sum.value(), 3U);
    }
    EXPECT_EQ(desk.written, written);
    for (int i = 0; i < 200; ++i) {
      auto row = co_await rows.read(kPatience);
      EXPECT_TRUE(row.has_value());
    }
    EXPECT_GT(desk.written, 150U);
  }(context_, channel, desk_));
  settle();
  EXPECT_EQ(desk_.cancelled, 1U) << "the stream went away unread, and its writer was told";
}

TEST_F(Streams, ASlowServerHoldsItsClientBack) {
  Channel channel = connect();
  auto numbers = run(channel.call<&Desk::nothing_read>(kPatience)).value_or_throw();
  run([](Context& context, ArgumentStream<std::string, Empty>& out) -> Task<> {
    unsigned sent = 0;
    for (;; ++sent) {
      Status status = co_await out.write(std::string(1000, 'x'), Limit(50ms));
      if (!status.ok()) {
        EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
        break;
      }
    }
    EXPECT_GT(sent, 50U);
    EXPECT_LT(sent, 100U);
    static_cast<void>(context);
  }(context_, numbers));
  numbers.cancel();
  settle();
  EXPECT_EQ(desk_.cancelled, 1U);
}

TEST_F(Streams, CancelledByTheClient) {
  Channel channel = connect();
  run([](Channel& on) -> Task<> {
    auto rows = (co_await on.call<&Desk::count>(Range{100000, 100}, kPatience)).value_or_throw();
    for (int i = 0; i < 10; ++i) static_cast<void>(co_await rows.read(kPatience));
    rows.cancel();
    Status ended = co_await rows.finish(kPatience);
    EXPECT_EQ(ended.code(), Code::kCancelled);
    auto talk = (co_await on.call<&Desk::talk>()).value_or_throw();
  }(channel));
  settle();
  EXPECT_EQ(desk_.cancelled, 1U);
  EXPECT_TRUE(context_.run_until([&] { return channel.calls() == 0; }, Clock::now() + kPatience));
}

TEST_F(Streams, ADeadlineEndsThem) {
  Channel channel = connect();
  run([](Channel& on) -> Task<> {
    auto numbers = (co_await on.call<&Desk::sum>(CallOptions(kPatience))).value_or_throw();
    auto sum = co_await numbers.finish(kPatience);
    EXPECT_TRUE(sum.ok()) << "nothing was awaited that would take so long";
    auto talk = (co_await on.call<&Desk::talk>(CallOptions(500ms))).value_or_throw();
    auto back = co_await talk.read(kPatience);
    EXPECT_FALSE(back.has_value());
    EXPECT_EQ(talk.status().code(), Code::kDeadlineExceeded) << talk.status().what();
    Status late = co_await talk.write("late", kPatience);
    EXPECT_FALSE(late.ok());
  }(channel));
  settle();
}

// The server's status arrives before the client has written everything.
TEST_F(Streams, TheServerMayEndFirst) {
  Channel channel = connect();
  run([](Channel& on) -> Task<> {
    auto numbers = (co_await on.call<&Desk::first_only>()).value_or_throw();
    Status sent;
    unsigned count = 0;
    while (sent.ok() && count < 1000000) {
      sent = co_await numbers.write(7, kPatience);
      ++count;
    }
    EXPECT_FALSE(sent.ok());
    auto answer = co_await numbers.finish(kPatience);
    EXPECT_EQ(answer.value(), 7U);
  }(channel));
}

}  // namespace rpc_test::stream_test
