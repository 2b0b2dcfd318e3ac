// The end of connections: everything sent arrives, and every waiter learns the reason.
#include "tests/libraries/comm/world.h"

namespace comm_test::close_test {

class Closing : public World {};

TEST_F(Closing, EverythingSentArrives) {
  Pair pair = connect();
  run([](Pair& p) -> Task<> {
    const auto sender = [](Endpoint& end) -> Task<> {
      for (unsigned i = 0; i < 1000; ++i) (co_await end.send(i, kPatience)).value_or_throw();
      (co_await end.close(kPatience)).value_or_throw();
      EXPECT_FALSE(end.open());
      EXPECT_EQ((co_await end.send("late")).error().code(), Code::kClosed);
      EXPECT_EQ((co_await end.receive()).error().code(), Code::kClosed);
    };
    const auto receiver = [](Endpoint& end) -> Task<> {
      for (unsigned i = 0; i < 1000; ++i)
        EXPECT_EQ((co_await end.receive(kPatience)).value_or_throw().as<unsigned>(), i);
      auto message = co_await end.receive(kPatience);
      EXPECT_EQ(message.error().code(), Code::kClosedByPeer) << message.error().what();
      EXPECT_EQ((co_await end.send("late")).error().code(), Code::kClosedByPeer);
    };
    co_await when_all(sender(p.client), receiver(p.server));
  }(pair));
}

TEST_F(Closing, DestroyingIsClosingInTheBackground) {
  Pair pair = connect();
  run([](Pair& p) -> Task<> {
    for (unsigned i = 0; i < 50; ++i) (co_await p.client.send(i, kPatience)).value_or_throw();
    p.client = Endpoint();
    for (unsigned i = 0; i < 50; ++i)
      EXPECT_EQ((co_await p.server.receive(kPatience)).value_or_throw().as<unsigned>(), i);
    EXPECT_EQ((co_await p.server.receive(kPatience)).error().code(), Code::kClosedByPeer);
  }(pair));
  pair.server = Endpoint();
  settle();
}

TEST_F(Closing, TheContextWaitsForWhatIsClosing) {
  Pair pair = connect();
  ContextOptions patient;
  patient.linger = 5s;
  {
    Context other = Context::open(patient).value_or_throw();
    Endpoint far;
    Endpoint near = [&] {
      auto connecting = other.connect(address(), kPatience);
      auto accepting = listener_.accept(kPatience);
      connecting.start();
      accepting.start();
      while (!connecting.done() || !accepting.done()) {
        other.poll();
        context_.poll();
      }
      far = accepting.await_resume().value_or_throw();
      return connecting.await_resume().value_or_throw();
    }();
    auto sending = near.send("last words", kPatience);
    sending.start();
    near = Endpoint();
    pair.server = std::move(far);
    // The destructor of `other` waits only for the acknowledgement, which a hardware device sends by itself.
    // A software device needs polling, so poll here.
    for (int i = 0; i < 2000; ++i) {
      other.poll();
      context_.poll();
    }
  }
  EXPECT_EQ(run(as_task(pair.server.receive(kPatience))).value_or_throw().text(), "last words");
}

TEST_F(Closing, BothAtOnce) {
  for (int round = 0; round < 10; ++round) {
    Pair pair = connect();
    run([](Pair& p) -> Task<> {
      auto [a, b] = co_await when_all(p.client.close(kPatience), p.server.close(kPatience));
      EXPECT_TRUE(a.ok()) << a.error().what();
      EXPECT_TRUE(b.ok()) << b.error().what();
    }(pair));
  }
  settle();
}

// Only the second end's device can acknowledge the first one's close, and that acknowledgement may be lost.
// The second end must stay until it can be repeated. This matters most with a high loss rate
// (comm.closing.leaky).
TEST_F(Closing, TheSecondLeavesOnceTheFirstKnows) {
  for (int round = 0; round < 40; ++round) {
    Pair pair = connect();
    run([](Pair& p) -> Task<> {
      const auto first = [](Endpoint& end) -> Task<> {
        auto closed = co_await end.close(kPatience);
        EXPECT_TRUE(closed.ok()) << closed.error().what();
      };
      const auto second = [](Endpoint end) -> Task<> {
        EXPECT_EQ((co_await end.receive(kPatience)).error().code(), Code::kClosedByPeer);
        auto closed = co_await end.close(kPatience);
        EXPECT_TRUE(closed.ok()) << closed.error().what();
      };
      co_await when_all(first(p.client), second(std::move(p.server)));
    }(pair));
  }
  settle();
}

TEST_F(Closing, AbortResumesEverybodyAtOnce) {
  Profile narrow;
  narrow.receive_depth = 4;
  Pair pair = connect(narrow, narrow);
  run([](Context& context, Pair& p) -> Task<> {
    Scope scope;
    int resumed = 0;
    for (int i = 0; i < 3; ++i) {
      scope.spawn([](Endpoint& end, int& count) -> Task<> {
        EXPECT_EQ((co_await end.receive()).error().code(), Code::kClosed);
        ++count;
      }(p.client, resumed));
    }
    for (int i = 0; i < 10; ++i) {
      scope.spawn([](Endpoint& end, int& count) -> Task<> {
        std::string text(2000, 'z');
        auto sent = co_await end.send(text);
        EXPECT_TRUE(sent.ok() || sent.error().code() == Code::kClosed);
        ++count;
      }(p.client, resumed));
    }
    p.client.abort();
    (co_await context.yield()).value();
    co_await scope.join();
    EXPECT_EQ(resumed, 13);
    for (;;) {
      auto message = co_await p.server.receive(kPatience);
      if (message) continue;
      EXPECT_EQ(message.error().code(), Code::kPeerGone) << message.error().what();
      EXPECT_EQ(message.error().peer(), p.server.peer());
      break;
    }
  }(context_, pair));
  pair.server = Endpoint();
  settle();
}

TEST_F(Closing, LoansOutliveTheirEndpoint) {
  Pair pair = connect();
  Message loan = run([](Pair& p) -> Task<Message> {
    (co_await p.client.send("kept", kPatience)).value_or_throw();
    co_return (co_await p.server.receive(kPatience)).value_or_throw();
  }(pair));
  pair.server.abort();
  pair = Pair();
  settle();
  EXPECT_EQ(loan.text(), "kept");
}

TEST(AnyOrder, HandlesOutliveTheirContext) {
  std::optional<Context> context(
      Context::open(ContextOptions{.linger = std::chrono::milliseconds(0)}).value_or_throw());
  Listener listener = context->listen(address_of(*context) + ":0").value_or_throw();
  const std::string where = address_of(*context) + ":" + std::to_string(listener.port());
  auto [near, far] = context->run(when_all(context->connect(where, kPatience), listener.accept(kPatience)));
  Endpoint client = std::move(near).value_or_throw();
  Endpoint server = std::move(far).value_or_throw();
  Buffer buffer = context->pool().take(1000).value_or_throw();
  Pool pool = Pool::create(*context).value_or_throw();
  Buffer other = pool.take(1000).value_or_throw();
  auto receiving = server.receive();
  receiving.start();
  auto sleeping = context->sleep(10s);
  sleeping.start();
  context.reset();
  EXPECT_TRUE(receiving.done());
  EXPECT_EQ(receiving.await_resume().error().code(), Code::kClosed);
  EXPECT_TRUE(sleeping.done());
  auto sending = client.send("x");
  sending.start();
  EXPECT_EQ(sending.await_resume().error().code(), Code::kClosed);
  auto accepting = listener.accept();
  accepting.start();
  EXPECT_EQ(accepting.await_resume().error().code(), Code::kClosed);
}

}  // namespace comm_test::close_test
