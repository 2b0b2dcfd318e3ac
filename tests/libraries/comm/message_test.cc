// Messages: contents, order, sizes, credits and waiting.
#include <cstring>
#include <numeric>

#include "tests/libraries/comm/world.h"

namespace comm_test::message_test {

class Messages : public World {};

std::string pattern(std::size_t size, unsigned seed) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 31 + seed * 7) & 0xff);
  return text;
}

TEST_F(Messages, ArriveWhole) {
  Pair pair = connect();
  run([](Pair& p) -> Task<> {
    (co_await p.client.send("hello", kPatience)).value_or_throw();
    Message message = (co_await p.server.receive(kPatience)).value_or_throw();
    EXPECT_EQ(message.text(), "hello");
  }(pair));
}

TEST_F(Messages, EverySizeInOrder) {
  Pair pair = connect();
  const auto sender = [](Endpoint& end) -> Task<> {
    for (unsigned i = 0; i < 300; ++i)
      (co_await end.send(pattern(i * 13 % 4097, i), kPatience)).value_or_throw();
    (co_await end.send(pattern(4096, 1), kPatience)).value_or_throw();
    (co_await end.send(std::string_view(), kPatience)).value_or_throw();
  };
  const auto receiver = [](Endpoint& end) -> Task<> {
    for (unsigned i = 0; i < 300; ++i) {
      Message message = (co_await end.receive(kPatience)).value_or_throw();
      EXPECT_EQ(message.text(), pattern(i * 13 % 4097, i)) << i;
    }
    Message last = (co_await end.receive(kPatience)).value_or_throw();
    EXPECT_EQ(last.text(), pattern(4096, 1));
    Message nothing = (co_await end.receive(kPatience)).value_or_throw();
    EXPECT_EQ(nothing.size(), 0U);
    EXPECT_FALSE(nothing.immediate());
  };
  run(when_all(sender(pair.client), receiver(pair.server)));
  run(when_all(sender(pair.server), receiver(pair.client)));
}

TEST_F(Messages, OwnedBuffersComeBack) {
  Pair pair = connect();
  run([](Pair& p, Buffer buffer) -> Task<> {
    const std::byte* where = buffer.data();
    for (unsigned i = 0; i < 100; ++i) {
      std::memset(buffer.data(), static_cast<int>(i), buffer.size());
      buffer = (co_await p.client.send(std::move(buffer), kPatience)).value_or_throw();
      EXPECT_EQ(buffer.data(), where);
      Message message = (co_await p.server.receive(kPatience)).value_or_throw();
      EXPECT_EQ(message.size(), buffer.size());
      EXPECT_EQ(std::to_integer<unsigned>(message.bytes()[message.size() - 1]), i);
    }
  }(pair, take(3000)));
}

// try_send succeeds while the peer has room. A refused message is not sent, and waiting sends keep their
// order.
TEST_F(Messages, TriedAtOnce) {
  Profile shallow;
  shallow.receive_depth = 8;
  Pair pair = connect({}, shallow);
  EXPECT_FALSE(pair.server.try_receive());
  std::uint32_t sent = 0;
  while (pair.client.try_send(sent)) ++sent;
  EXPECT_EQ(sent, 7U) << "one credit is kept for the library itself";
  const std::string large = pattern(4000, 1);
  EXPECT_FALSE(pair.server.try_send(std::as_bytes(std::span<const char>(large.data(), large.size()))))
      << "it does not go with its request";
  const std::uint32_t last = sent++;
  auto waiting = pair.client.send(last, kPatience);
  waiting.start();
  EXPECT_FALSE(waiting.done());
  std::uint32_t seen = 0;
  const auto next = [&] {
    // Receive all of them: messages that have already arrived do not wake a context.
    while (Message message = pair.server.try_receive()) {
      EXPECT_EQ(message.as<std::uint32_t>(), seen);
      ++seen;
    }
    return seen == sent;
  };
  EXPECT_TRUE(context_.run_until(next, Clock::now() + kPatience)) << seen;
  EXPECT_TRUE(waiting.await_resume());
  EXPECT_TRUE(context_.run_until([&] { return pair.client.try_send(sent); }, Clock::now() + kPatience))
      << "the room came back";
  pair.client.abort();
  EXPECT_FALSE(pair.client.try_send(sent));
  EXPECT_FALSE(Endpoint().try_send(sent));
  EXPECT_FALSE(Endpoint().try_receive());
}

// The memory of a message is returned with the last reference.
TEST_F(Messages, SharedLoans) {
  Profile shallow;
  shallow.receive_depth = 4;
  Pair pair = connect({}, shallow);
  std::vector<Message> kept;
  run([](Pair& p, std::vector<Message>& all) -> Task<> {
    for (unsigned i = 0; i < 3; ++i) {
      (co_await p.client.send(pattern(100, i), kPatience)).value_or_throw();
      Message message = (co_await p.server.receive(kPatience)).value_or_throw();
      all.push_back(message.share());
    }
  }(pair, kept));
  EXPECT_FALSE(Message().share());
  auto sending = pair.client.send("more", kPatience);
  sending.start();
  EXPECT_FALSE(context_.run_until([&] { return sending.done(); }, Clock::now() + 100ms));
  for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(kept[i].text(), pattern(100, i));
  Message again = kept[0].share();
  kept.clear();
  EXPECT_TRUE(context_.run_until([&] { return sending.done(); }, Clock::now() + kPatience));
  EXPECT_EQ(again.text(), pattern(100, 0));
}

TEST_F(Messages, TheEndOfATurn) {
  unsigned rung = 0;
  const auto ring = [](void* count) { ++*static_cast<unsigned*>(count); };
  TurnEnd end(context_, ring, &rung);
  end.request();
  end.request();
  EXPECT_EQ(rung, 0U);
  context_.poll();
  EXPECT_EQ(rung, 1U);
  context_.poll();
  EXPECT_EQ(rung, 1U) << "once";
  {
    TurnEnd gone(context_, ring, &rung);
    gone.request();
  }
  context_.poll();
  EXPECT_EQ(rung, 1U);
  // After all ready coroutines.
  run([](Context& context, TurnEnd& after, unsigned& count) -> Task<> {
    static_cast<void>(co_await context.yield());
    const unsigned before = count;
    after.request();
    EXPECT_EQ(count, before);
    static_cast<void>(co_await context.yield());
    EXPECT_EQ(count, before + 1);
  }(context_, end, rung));
}

TEST_F(Messages, TooLargeIsSaidAtOnceAndHarmsNobody) {
  Profile small;
  small.message_limit = 100;
  Pair pair = connect({}, small);
  EXPECT_EQ(pair.client.message_limit(), 100U);
  run([](Pair& p) -> Task<> {
    const std::string large(101, 'x');
    auto sent = co_await p.client.send(large, kPatience);
    EXPECT_EQ(sent.error().code(), Code::kTooLarge);
    EXPECT_NE(sent.error().what().find("the peer takes 100"), std::string::npos) << sent.error().what();
    (co_await p.client.send(std::string(100, 'y'), kPatience)).value_or_throw();
    EXPECT_EQ((co_await p.server.receive(kPatience)).value_or_throw().size(), 100U);
  }(pair));
}

// A sender waits for the receiver's credits, which held messages withhold.
TEST_F(Messages, BackpressureByLoans) {
  Profile narrow;
  narrow.receive_depth = 8;
  Pair pair = connect({}, narrow);
  run([](Context& context, Pair& p) -> Task<> {
    unsigned sent = 0;
    Scope scope;
    scope.spawn([](Endpoint& end, unsigned& count) -> Task<> {
      for (; count < 100; ++count) (co_await end.send(count, kPatience)).value_or_throw();
    }(p.client, sent));
    std::vector<Message> loans;
    for (int i = 0; i < 7; ++i) loans.push_back((co_await p.server.receive(kPatience)).value_or_throw());
    (co_await context.sleep(50ms)).value();
    EXPECT_EQ(sent, 7U) << "one of eight is kept for credits";
    EXPECT_GT(p.client.counters().waits_for_credit, 0U);
    // Each returned message allows exactly one more.
    for (unsigned expected = 7; expected < 100; ++expected) {
      EXPECT_EQ(loans.front().as<unsigned>(), expected - 7);
      loans.erase(loans.begin());
      loans.push_back((co_await p.server.receive(kPatience)).value_or_throw());
      EXPECT_EQ(loans.back().as<unsigned>(), expected);
    }
    co_await scope.join();
  }(context_, pair));
}

// Both ends send as fast as they can with the least room: credits must not run out.
TEST_F(Messages, BothWaysWithLittleRoom) {
  for (const std::uint16_t depth : std::initializer_list<std::uint16_t>{4, 5, 7, 16}) {
    Profile profile;
    profile.receive_depth = depth;
    profile.send_depth = 4;
    Pair pair = connect(profile, profile);
    const auto sender = [](Endpoint& end) -> Task<> {
      for (unsigned i = 0; i < 500; ++i) (co_await end.send(i, kPatience)).value_or_throw();
    };
    const auto receiver = [](Endpoint& end) -> Task<> {
      for (unsigned i = 0; i < 500; ++i)
        EXPECT_EQ((co_await end.receive(kPatience)).value_or_throw().as<unsigned>(), i);
    };
    run(when_all(sender(pair.client), receiver(pair.server), sender(pair.server), receiver(pair.client)));
  }
}

// A steady sender must get credits while it still has most of them.
TEST_F(Messages, CreditsComeInPieces) {
  Profile wide;
  wide.receive_depth = 256;
  Pair pair = connect({}, wide);
  run([](Context& context, Pair& p) -> Task<> {
    for (unsigned i = 0; i < 64; ++i) {
      (co_await p.client.send(i, kPatience)).value_or_throw();
      EXPECT_EQ((co_await p.server.receive(kPatience)).value_or_throw().as<unsigned>(), i);
    }
    for (int i = 0; i < 200 && p.client.counters().credit_messages_received < 2; ++i)
      (co_await context.sleep(5ms)).value();
    EXPECT_EQ(p.client.counters().credit_messages_received, 2U);
  }(context_, pair));
}

TEST_F(Messages, CreditMessagesEnd) {
  Profile narrow;
  narrow.receive_depth = 4;
  Pair pair = connect(narrow, narrow);
  run([](Context& context, Pair& p) -> Task<> {
    for (unsigned i = 0; i < 20; ++i) {
      (co_await p.client.send(i, kPatience)).value_or_throw();
      EXPECT_EQ((co_await p.server.receive(kPatience)).value_or_throw().as<unsigned>(), i);
    }
    const auto before = p.client.counters().credit_messages_sent + p.server.counters().credit_messages_sent;
    (co_await context.sleep(50ms)).value();
    const auto after = p.client.counters().credit_messages_sent + p.server.counters().credit_messages_sent;
    EXPECT_LE(after - before, 1U) << "two ends answer each other's credits";
  }(context_, pair));
}

TEST_F(Messages, CallbacksAndPollingAreTheSameOperations) {
  Pair pair = connect();
  bool called = false;
  then(pair.server.receive(kPatience), [&](Result<Message> message) {
    EXPECT_EQ(message.value().text(), "by callback");
    called = true;
  });
  auto sending = pair.client.send("by callback", kPatience);
  sending.start();
  EXPECT_TRUE(context_.run_until([&] { return called && sending.done(); }, Clock::now() + kPatience));
  EXPECT_TRUE(sending.await_resume().ok());

  auto receiving = pair.client.receive(kPatience);
  receiving.start();
  EXPECT_FALSE(receiving.done());
  then(pair.server.send("back", kPatience), [](Result<void> sent) { EXPECT_TRUE(sent.ok()); });
  EXPECT_TRUE(context_.run_until([&] { return receiving.done(); }, Clock::now() + kPatience));
  EXPECT_EQ(receiving.await_resume().value().text(), "back");
}

TEST_F(Messages, OneSlowPeerStallsNobodyElse) {
  Profile narrow;
  narrow.receive_depth = 4;
  Pair slow = connect({}, narrow);
  Pair quick = connect({}, narrow);
  run([](Pair& s, Pair& q) -> Task<> {
    Scope scope;
    scope.spawn([](Endpoint& end) -> Task<> {
      for (unsigned i = 0; i < 10; ++i) {
        auto sent = co_await end.send(i, kPatience);
        if (!sent) co_return;
      }
    }(s.client));
    for (unsigned i = 0; i < 200; ++i) {
      (co_await q.client.send(i, kPatience)).value_or_throw();
      EXPECT_EQ((co_await q.server.receive(kPatience)).value_or_throw().as<unsigned>(), i);
    }
    EXPECT_EQ(scope.size(), 1U);
  }(slow, quick));
}

}  // namespace comm_test::message_test
