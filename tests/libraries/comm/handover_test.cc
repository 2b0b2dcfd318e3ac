// Connections handed to other contexts in other threads: data sent meanwhile arrives there once and in order,
// and other connections are not disturbed.
#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "tests/libraries/comm/world.h"

namespace comm_test::handover_test {

Task<> echo(Context& context, Incoming incoming) {
  Endpoint end = (co_await incoming.accept(context, {}, kPatience)).value_or_throw();
  for (;;) {
    auto message = co_await end.receive(kPatience);
    if (!message) co_return;
    (co_await end.send(message->bytes(), kPatience)).value_or_throw();
  }
}

// A context in its own thread that takes over requests.
class Worker {
 public:
  Worker() : thread_([this] { work(); }) { ready_.get_future().wait(); }
  ~Worker() {
    context_->post([this] { over_ = true; });
    thread_.join();
  }
  void hand(Incoming incoming) {
    context_->post([this, request = std::make_shared<Incoming>(std::move(incoming))] {
      ++taken_;
      scope_->spawn(echo(*context_, std::move(*request)));
    });
  }
  void hand_and_drop(Incoming incoming) {
    context_->post([request = std::make_shared<Incoming>(std::move(incoming))] { *request = Incoming(); });
  }
  [[nodiscard]] int taken() const { return taken_; }

 private:
  void work() {
    Context context = Context::open().value_or_throw();
    Scope scope;
    context_ = &context;
    scope_ = &scope;
    ready_.set_value();
    context.run_until([this] { return over_; });
    context.run(scope.join());
  }
  Context* context_ = nullptr;
  Scope* scope_ = nullptr;
  bool over_ = false;
  std::atomic<int> taken_{0};
  std::promise<void> ready_;
  std::thread thread_;  // last: it uses the others
};

// Sends immediately after connecting, and continues. The answers are the sent numbers, in order.
Task<> converse(Context& context, std::string address, std::uint32_t count) {
  Endpoint end = (co_await context.connect(address, kPatience)).value_or_throw();
  Scope scope;
  scope.spawn([](Endpoint& to, std::uint32_t total) -> Task<> {
    for (std::uint32_t i = 0; i < total; ++i) (co_await to.send(i, kPatience)).value_or_throw();
  }(end, count));
  for (std::uint32_t i = 0; i < count; ++i)
    EXPECT_EQ((co_await end.receive(kPatience)).value_or_throw().as<std::uint32_t>(), i);
  co_await scope.join();
  (co_await end.close(kPatience)).value_or_throw();
}

class HandedOver : public World {};

TEST_F(HandedOver, MessagesBeforeDuringAndAfter) {
  constexpr int kPeers = 6;
  std::array<Worker, 2> workers;
  Pair here = connect();
  run([](Context& context, Listener& listener, std::string where, std::array<Worker, 2>& hands,
         Pair& stays) -> Task<> {
    Scope scope;
    for (int i = 0; i < kPeers; ++i) scope.spawn(converse(context, where, 300));
    scope.spawn([](Listener& l, std::array<Worker, 2>& h) -> Task<> {
      for (std::size_t i = 0; i < kPeers; ++i) h[i % 2].hand((co_await l.next(kPatience)).value_or_throw());
    }(listener, hands));
    for (std::uint32_t i = 0; i < 300; ++i) {
      (co_await stays.client.send(i, kPatience)).value_or_throw();
      EXPECT_EQ((co_await stays.server.receive(kPatience)).value_or_throw().as<std::uint32_t>(), i);
    }
    co_await scope.join();
  }(context_, listener_, address(), workers, here));
  EXPECT_EQ(workers[0].taken(), kPeers / 2);
  EXPECT_EQ(workers[1].taken(), kPeers / 2);
}

TEST_F(HandedOver, OutlivesTheContextThatListened) {
  Worker worker;
  auto front = std::make_unique<Context>(Context::open(options()).value_or_throw());
  auto listener = std::make_unique<Listener>(front->listen(address_of(*front) + ":0").value_or_throw());
  const std::string where = address_of(*front) + ":" + std::to_string(listener->port());
  auto connecting = context_.connect(where, kPatience);
  connecting.start();
  auto arriving = listener->next(kPatience);
  arriving.start();
  while (!arriving.done()) {
    context_.poll();
    front->poll();
  }
  worker.hand(arriving.await_resume().value_or_throw());
  listener.reset();
  front.reset();
  ASSERT_TRUE(context_.run_until([&] { return connecting.done(); }, Clock::now() + kPatience));
  Endpoint end = connecting.await_resume().value_or_throw();
  run([](Endpoint& e) -> Task<> {
    (co_await e.send("still there?", kPatience)).value_or_throw();
    EXPECT_EQ((co_await e.receive(kPatience)).value_or_throw().text(), "still there?");
    (co_await e.close(kPatience)).value_or_throw();
  }(end));
}

TEST_F(HandedOver, DroppedByWhoGotIt) {
  Worker worker;
  auto [near, none] =
      run(when_all(context_.connect(address(), kPatience), [](Listener& l, Worker& w) -> Task<bool> {
        w.hand_and_drop((co_await l.next(kPatience)).value_or_throw());
        co_return true;
      }(listener_, worker)));
  ASSERT_FALSE(near.ok());
  EXPECT_EQ(near.error().code(), Code::kRefused) << near.error().what();
  settle();
}

}  // namespace comm_test::handover_test
