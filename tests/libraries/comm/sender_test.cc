// Operations and tasks as senders, with receivers and algorithms written here: no implementation of
// std::execution is needed.
#include "rrdma/comm/sender.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/libraries/comm/world.h"

namespace comm_test::sender_test {

// ---- a stop token that is not std::stop_token, as those of std::execution ----

class StopSource {
 public:
  class Token {
   public:
    template <typename F>
    class callback_type {
     public:
      callback_type(Token token, F call) : source_(token.source_), call_(std::move(call)) {
        const std::lock_guard lock(source_->mutex_);
        source_->call_ = [this] { call_(); };
        ++source_->callbacks_;
      }
      callback_type(const callback_type&) = delete;
      callback_type& operator=(const callback_type&) = delete;
      ~callback_type() {
        const std::lock_guard lock(source_->mutex_);
        source_->call_ = nullptr;
        --source_->callbacks_;
      }

     private:
      StopSource* source_;
      F call_;
    };
    explicit Token(StopSource* source) : source_(source) {}
    [[nodiscard]] bool stop_possible() const { return source_ != nullptr; }
    [[nodiscard]] bool stop_requested() const { return source_->stopped_; }

   private:
    StopSource* source_;
  };

  void request_stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (call_) call_();
  }
  Token token() { return Token(this); }
  [[nodiscard]] int callbacks() const { return callbacks_; }

 private:
  std::mutex mutex_;
  std::function<void()> call_;
  bool stopped_ = false;
  int callbacks_ = 0;
};

// ---- a receiver that notes its completion ----

template <typename V>
struct Noted {
  std::optional<V> value;
  std::optional<Error> error;
  std::exception_ptr exception;
  bool stopped = false;
  int completions = 0;
  std::function<void()> then;  // runs last; may destroy the operation state

  void complete() {
    ++completions;
    if (auto call = std::move(then)) call();
  }
};

template <typename V, typename Token = std::stop_token>
struct Noting {
  using receiver_concept = execution::receiver_t;
  struct Env {
    Token token;
    [[nodiscard]] Token query(execution::get_stop_token_t) const noexcept { return token; }
  };
  Noted<V>* noted;
  Token token = Token();

  [[nodiscard]] Env get_env() const noexcept { return {token}; }
  void set_value(V value) && noexcept {
    noted->value.emplace(std::move(value));
    noted->complete();
  }
  void set_value() && noexcept requires std::same_as<V, std::monostate> {
    noted->value.emplace();
    noted->complete();
  }
  void set_error(Error error) && noexcept {
    noted->error.emplace(std::move(error));
    noted->complete();
  }
  void set_error(std::exception_ptr exception) && noexcept {
    noted->exception = std::move(exception);
    noted->complete();
  }
  void set_stopped() && noexcept {
    noted->stopped = true;
    noted->complete();
  }
};

// ---- algorithms ----

// Passes the value through a function.
template <typename S, typename F>
struct Then {
  using sender_concept = execution::sender_t;
  template <typename R>
  struct Receiver {
    using receiver_concept = execution::receiver_t;
    R outer;
    F function;
    [[nodiscard]] auto get_env() const noexcept { return execution::get_env(outer); }
    template <typename... V>
    void set_value(V&&... values) && noexcept {
      execution::set_value(std::move(outer), function(std::forward<V>(values)...));
    }
    template <typename E>
    void set_error(E&& error) && noexcept {
      execution::set_error(std::move(outer), std::forward<E>(error));
    }
    void set_stopped() && noexcept { execution::set_stopped(std::move(outer)); }
  };
  S sender;
  F function;
  template <typename R>
  auto connect(R receiver) && {
    return execution::connect(std::move(sender), Receiver<R>{std::move(receiver), std::move(function)});
  }
};

template <typename S, typename F>
Then<S, F> then_of(S sender, F function) {
  return {std::move(sender), std::move(function)};
}

// Completes with a number in a thread of its own, when it is told to or stopped.
class Elsewhere {
 public:
  using sender_concept = execution::sender_t;
  struct Orders {
    int number = 0;
    std::atomic<bool> complete = false;
    std::atomic<bool> stopped = false;
    std::atomic<int> states = 0;
  };
  explicit Elsewhere(Orders& orders) : orders_(&orders) {}

  template <typename R>
  class State {
   public:
    using operation_state_concept = execution::operation_state_t;
    State(Orders* orders, R receiver) : orders_(orders), receiver_(std::move(receiver)) { ++orders_->states; }
    State(const State&) = delete;
    ~State() {
      thread_.join();
      --orders_->states;
    }
    void start() & noexcept {
      thread_ = std::thread([this] {
        const auto stop = execution::get_stop_token(execution::get_env(receiver_));
        while (!orders_->complete && !stop.stop_requested()) std::this_thread::sleep_for(1ms);
        if (orders_->complete) return execution::set_value(std::move(receiver_), orders_->number);
        orders_->stopped = true;
        execution::set_stopped(std::move(receiver_));
      });
    }

   private:
    Orders* orders_;
    R receiver_;
    std::thread thread_;
  };
  template <typename R>
  State<R> connect(R receiver) && {
    return {orders_, std::move(receiver)};
  }

 private:
  Orders* orders_;
};

class Senders : public World {
 protected:
  template <typename V>
  void await(const Noted<V>& noted) {
    EXPECT_TRUE(context_.run_until([&] { return noted.completions != 0; }, Clock::now() + kPatience));
    EXPECT_EQ(noted.completions, 1);
  }
};

Task<Result<int>> failing(Code code) { co_return Error(code, During::kCall); }
Task<int> number(Context& context, int value) {
  static_cast<void>(co_await context.sleep(1ms));
  co_return value;
}
Task<int> thrower() {
  throw std::runtime_error("thrown");
  co_return 0;
}

TEST_F(Senders, AnOperationSendsItsValue) {
  Pair pair = connect();
  Noted<std::string> noted;
  auto text = then_of(as_sender(context_, pair.server.receive()),
                      [](const Message& message) { return std::string(message.text()); });
  auto operation = execution::connect(std::move(text), Noting<std::string>{&noted});
  execution::start(operation);
  EXPECT_EQ(noted.completions, 0);
  run(as_task(pair.client.send("hello"))).value();
  await(noted);
  EXPECT_EQ(noted.value, "hello");

  Noted<std::monostate> sent;
  auto sending =
      execution::connect(as_sender(context_, pair.client.send("again")), Noting<std::monostate>{&sent});
  execution::start(sending);
  await(sent);
  EXPECT_TRUE(sent.value);
}

TEST_F(Senders, ValuesErrorsAndExceptionsOfTasks) {
  Noted<int> plain;
  auto one = execution::connect(as_sender(context_, number(context_, 7)), Noting<int>{&plain});
  execution::start(one);
  await(plain);
  EXPECT_EQ(plain.value, 7);

  Noted<int> failed;
  auto two = execution::connect(as_sender(context_, failing(Code::kRefused)), Noting<int>{&failed});
  execution::start(two);
  await(failed);
  EXPECT_EQ(failed.error->code(), Code::kRefused);

  Noted<int> cancelled;
  auto three = execution::connect(as_sender(context_, failing(Code::kCancelled)), Noting<int>{&cancelled});
  execution::start(three);
  await(cancelled);
  EXPECT_TRUE(cancelled.stopped);

  Noted<int> threw;
  auto four = execution::connect(as_sender(context_, thrower()), Noting<int>{&threw});
  execution::start(four);
  await(threw);
  EXPECT_THROW(std::rethrow_exception(threw.exception), std::runtime_error);
}

// The message that arrives after the stop belongs to the next receive.
TEST_F(Senders, AStopWithdrawsTheOperation) {
  Pair pair = connect();
  StopSource source;
  Noted<Message> noted;
  auto operation = execution::connect(as_sender(context_, pair.server.receive()),
                                      Noting<Message, StopSource::Token>{&noted, source.token()});
  execution::start(operation);
  EXPECT_EQ(source.callbacks(), 1);
  std::thread([&] { source.request_stop(); }).join();
  await(noted);
  EXPECT_TRUE(noted.stopped);
  EXPECT_EQ(source.callbacks(), 0);
  run(as_task(pair.client.send("late"))).value();
  auto received = run(as_task(pair.server.receive(kPatience)));
  EXPECT_EQ(received.value().text(), "late");
}

TEST_F(Senders, AStopBeforeTheStart) {
  auto witness = std::make_shared<int>(0);
  bool ran = false;
  const auto body = [](std::shared_ptr<int>, bool& did_run) -> Task<int> {
    did_run = true;
    co_return 1;
  };
  std::stop_source source;
  source.request_stop();
  Noted<int> noted;
  {
    auto operation =
        execution::connect(as_sender(context_, body(witness, ran)), Noting<int>{&noted, source.get_token()});
    execution::start(operation);
    await(noted);
    EXPECT_TRUE(noted.stopped);
    EXPECT_FALSE(ran);
  }
  EXPECT_EQ(witness.use_count(), 1);
}

TEST_F(Senders, AStopDestroysTheTask) {
  auto witness = std::make_shared<int>(0);
  const auto sleeper = [](Context& context, std::shared_ptr<int>) -> Task<int> {
    (co_await context.sleep(1h)).value();
    co_return 1;
  };
  std::stop_source source;
  Noted<int> noted;
  auto operation = execution::connect(as_sender(context_, sleeper(context_, witness)),
                                      Noting<int>{&noted, source.get_token()});
  execution::start(operation);
  source.request_stop();
  await(noted);
  EXPECT_TRUE(noted.stopped);
  EXPECT_EQ(witness.use_count(), 1);
}

TEST_F(Senders, TheReceiverMayDestroyTheOperation) {
  for (const bool stop : {false, true}) {
    std::stop_source source;
    Noted<int> noted;
    using State =
        decltype(execution::connect(as_sender(context_, number(context_, 1)), Noting<int>{&noted, {}}));
    struct Holder {
      State state;
    };
    auto holder = std::unique_ptr<Holder>(new Holder{execution::connect(
        as_sender(context_, number(context_, 1)), Noting<int>{&noted, source.get_token()})});
    noted.then = [&] { holder.reset(); };
    execution::start(holder->state);
    if (stop) source.request_stop();
    await(noted);
    EXPECT_EQ(holder, nullptr);
  }
}

TEST_F(Senders, ATaskAwaitsASender) {
  Elsewhere::Orders orders{.number = 42};
  const auto body = [&]() -> Task<int> {
    auto awaited = from_sender<int>(context_, Elsewhere(orders));
    auto waits = [](Context& context, Elsewhere::Orders& its) -> Task<> {
      (co_await context.sleep(5ms)).value();
      its.complete = true;
    };
    auto [result, none] = co_await when_all(std::move(awaited), waits(context_, orders));
    co_return *result;
  };
  EXPECT_EQ(run(body()), 42);
  EXPECT_TRUE(context_.run_until([&] { return orders.states == 0; }, Clock::now() + kPatience));

  // There and back.
  EXPECT_EQ(run(from_sender<int>(context_, as_sender(context_, number(context_, 5)))).value(), 5);
  EXPECT_EQ(run(from_sender<int>(context_, as_sender(context_, failing(Code::kClosed)))).error().code(),
            Code::kClosed);
  EXPECT_EQ(run(from_sender<int>(context_, as_sender(context_, failing(Code::kCancelled)))).error().code(),
            Code::kCancelled);
  EXPECT_THROW((void)run(from_sender<int>(context_, as_sender(context_, thrower()))), std::runtime_error);
  EXPECT_TRUE(run(from_sender<void>(context_, as_sender(context_, context_.sleep(1ms)))).ok());
}

struct Picky {
  Picky(int number) : value(number) {
    if (number < 0) throw std::out_of_range("it is negative");
  }
  int value;
};

TEST_F(Senders, AValueThatCannotBeMadeIsThrown) {
  EXPECT_EQ(run(from_sender<Picky>(context_, as_sender(context_, number(context_, 5)))).value().value, 5);
  EXPECT_THROW((void)run(from_sender<Picky>(context_, as_sender(context_, number(context_, -5)))),
               std::out_of_range);
}

TEST_F(Senders, AnAwaitedSenderIsStopped) {
  // By the limit.
  Elsewhere::Orders orders;
  EXPECT_EQ(run(from_sender<int>(context_, Elsewhere(orders), 5ms)).error().code(), Code::kDeadline);
  EXPECT_TRUE(context_.run_until([&] { return orders.states == 0; }, Clock::now() + kPatience));
  EXPECT_TRUE(orders.stopped);

  // By the end of the task.
  orders.stopped = false;
  {
    Task<Result<int>> task = from_sender<int>(context_, Elsewhere(orders));
    task.start(std::noop_coroutine());
    EXPECT_EQ(orders.states, 1);
  }
  EXPECT_TRUE(context_.run_until([&] { return orders.states == 0; }, Clock::now() + kPatience));
  EXPECT_TRUE(orders.stopped);
}

TEST(SenderHeader, IsIncludedByNoOther) {
  if (!std::filesystem::exists(COMM_HEADERS)) GTEST_SKIP() << "runs without the sources (make interop)";
  unsigned headers = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(COMM_HEADERS "/..")) {
    if (entry.path().extension() != ".h") continue;
    ++headers;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(text.find("\n#include \"rrdma/comm/sender.h\""), std::string::npos) << entry.path();
  }
  EXPECT_GT(headers, 30U);
}

}  // namespace comm_test::sender_test
