// One template behind comm::Result and rpc::Result: the same interface, and conversions from comm to rpc,
// so that a program that uses both libraries needs no glue.
#include <any>
#include <array>
#include <memory>
#include <vector>

#include "rrdma/comm/sender.h"
#include "tests/libraries/rpc/world.h"

namespace rpc_test::result_test {

namespace comm = rrdma::comm;

comm::Error refused() {
  return comm::Error(comm::Code::kRefused, comm::During::kConnect).with_peer("10.9.0.1:7");
}

template <template <typename> class R, typename E>
void same_interface(const E& error) {
  static_assert(std::is_same_v<R<int>, comm::BasicResult<int, E>>);
  R<std::string> good = std::string("text");
  EXPECT_TRUE(good.ok() && good);
  EXPECT_EQ(good.value(), "text");
  EXPECT_EQ(*good, "text");
  EXPECT_EQ(good->size(), 4U);
  EXPECT_EQ(good.value_or_throw(), "text");
  EXPECT_EQ(std::as_const(good).value_or_throw(), "text");
  EXPECT_EQ(std::move(good).value_or_throw(), "text");
  R<std::string> bad = error;
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code(), error.code());
  EXPECT_EQ(bad.error().what(), error.what());
  EXPECT_DEATH((void)bad.value(),
               "value\\(\\) of a Result that holds an error: .*" + std::string(error.what()));
  EXPECT_DEATH((void)good.error(), "error\\(\\) of a Result that holds a value");

  R<void> done;
  EXPECT_TRUE(done.ok());
  done.value();
  done.value_or_throw();
  R<void> failed = error;
  EXPECT_EQ(failed.error().code(), error.code());
  R<std::unique_ptr<int>> moved = std::make_unique<int>(3);
  EXPECT_EQ(**moved, 3);
  std::unique_ptr<int> taken = *std::move(moved);
  EXPECT_EQ(*taken, 3);
}

TEST(ResultsDeathTest, BothHaveTheSameInterface) {
  same_interface<comm::Result>(refused());
  same_interface<Result>(Status(Code::kNotFound, "no such key"));
  EXPECT_THROW(comm::Result<int>(refused()).value_or_throw(), comm::Failure);
  EXPECT_THROW(Result<int>(Code::kAborted).value_or_throw(), Failure);
  EXPECT_EQ(Result<int>(Code::kAborted, "again").status().message(), "again");
  EXPECT_TRUE(Result<int>(1).status().ok());
  EXPECT_EQ(comm::Result<int>(comm::Code::kInvalid, comm::During::kTake).error().during(),
            comm::During::kTake);
}

TEST(Results, EachCodeOfCommHasOneOfRpc) {
  using From = comm::Code;
  const std::array<std::pair<From, Code>, 19> codes = {{
      {From::kNoDevice, Code::kInternal},          {From::kBadAddress, Code::kInvalidArgument},
      {From::kUnreachable, Code::kUnavailable},    {From::kRefused, Code::kUnavailable},
      {From::kVersion, Code::kFailedPrecondition}, {From::kClosed, Code::kUnavailable},
      {From::kClosedByPeer, Code::kUnavailable},   {From::kPeerGone, Code::kUnavailable},
      {From::kCancelled, Code::kCancelled},        {From::kDeadline, Code::kDeadlineExceeded},
      {From::kTooLarge, Code::kResourceExhausted}, {From::kNoMemory, Code::kResourceExhausted},
      {From::kNotSupported, Code::kInternal},      {From::kRemoteAccess, Code::kInternal},
      {From::kLocalAccess, Code::kInternal},       {From::kProtocol, Code::kInternal},
      {From::kInvalid, Code::kInvalidArgument},    {From::kSystem, Code::kInternal},
      {From::kInUse, Code::kUnavailable},
  }};
  for (const auto& [from, to] : codes) {
    EXPECT_EQ(code_of(from), to) << comm::name_of(from);
    const comm::Error error(from, comm::During::kCall);
    EXPECT_EQ(Status(error).code(), to);
    EXPECT_EQ(status_of(error).message(), error.what());
  }
}

// Programs have the layout compiled in.
template <typename R>
std::ptrdiff_t offset_of_value(R result) {
  return reinterpret_cast<const char*>(&*result) - reinterpret_cast<const char*>(&result);
}
template <typename R>
std::ptrdiff_t offset_of_error(const R& result) {
  return reinterpret_cast<const char*>(&result.error()) - reinterpret_cast<const char*>(&result);
}

TEST(Results, TheLayoutStays) {
  static_assert(sizeof(comm::Error) == 40 && sizeof(Status) == 24, "of 64-bit machines");
  static_assert(sizeof(comm::Result<int>) == 48 && sizeof(comm::Result<std::array<char, 100>>) == 112);
  static_assert(sizeof(comm::Result<void>) == 48);
  static_assert(sizeof(Result<int>) == 32 && sizeof(Result<std::array<char, 100>>) == 112);
  static_assert(sizeof(Result<void>) == 32);
  EXPECT_EQ(offset_of_value(comm::Result<int>(1)), 0);
  EXPECT_EQ(offset_of_value(Result<int>(1)), 0);
  EXPECT_EQ(offset_of_error(comm::Result<int>(refused())), 0);
  EXPECT_EQ(offset_of_error(Result<int>(Code::kAborted)), 0);
  EXPECT_EQ(offset_of_error(comm::Result<void>(refused())), 8);
  EXPECT_EQ(offset_of_error(Result<void>(Code::kAborted)), 8);
}

// A good Result<void> has no value for a Result<int>, and is no error.
static_assert(!std::is_constructible_v<Result<int>, comm::Result<void>>);
static_assert(!std::is_constructible_v<Result<int>, comm::Result<void>&>);
static_assert(!std::is_constructible_v<Result<int>, const comm::Result<void>&>);
static_assert(!std::is_constructible_v<Result<int>, Result<void>>);
static_assert(!std::is_constructible_v<Result<int>, comm::Result<std::string>>);
static_assert(!std::is_assignable_v<Result<int>&, comm::Result<void>>);
static_assert(std::is_convertible_v<comm::Result<void>, Result<void>>);
static_assert(std::is_convertible_v<comm::Result<int>, Result<long>>);
static_assert(std::is_convertible_v<comm::Result<void>, Status>);
static_assert(std::is_constructible_v<comm::Result<std::any>, Result<void>>, "it is the value");

comm::Result<int> small(bool good) {
  if (good) return 5;
  return refused();
}
comm::Result<void> nothing(bool good) {
  if (good) return {};
  return refused();
}

// Ordinary functions and coroutines return what comm gave them.
Result<long> converted(bool good) { return small(good); }
Status as_status(bool good) { return nothing(good); }
Result<std::string> from_error() { return refused(); }
Task<Result<long>> returned(bool good) { co_return small(good); }
Task<Result<std::string>> returned_error() {
  auto failed = small(false);
  co_return failed.error();
}
Task<Status> returned_status(bool good) { co_return nothing(good); }
Task<Result<void>> returned_nothing(bool good) { co_return nothing(good); }

class Mixed : public World {};

TEST_F(Mixed, AnErrorOfCommConvertsWhereACallReturnsIt) {
  const auto judge = [](const Status& status) {
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_EQ(status.message(), refused().what());
  };
  EXPECT_EQ(converted(true).value(), 5);
  EXPECT_TRUE(as_status(true).ok());
  EXPECT_EQ(run(returned(true)).value(), 5);
  EXPECT_TRUE(run(returned_status(true)).ok());
  EXPECT_TRUE(run(returned_nothing(true)).ok());
  judge(converted(false).error());
  judge(as_status(false));
  judge(from_error().status());
  judge(run(returned(false)).error());
  judge(run(returned_error()).error());
  judge(run(returned_status(false)));
  judge(run(returned_nothing(false)).error());
}

TEST_F(Mixed, TryAllOfBothLibrariesFailsWithAStatus) {
  const auto late = [](Context& context) -> Task<Result<int>> {
    auto slept = co_await context.sleep(1h);
    if (!slept) co_return slept.error();
    co_return 1;
  };
  const auto comm_task = [](bool good) -> Task<comm::Result<int>> { co_return small(good); };
  auto all = run(comm::try_all(late(context_), comm_task(false)));
  static_assert(std::is_same_v<decltype(all), Result<std::tuple<int, int>>>);
  EXPECT_EQ(all.error().code(), Code::kUnavailable);
  auto both = run(comm::try_all(returned(true), comm_task(true), context_.sleep(1ms)));
  EXPECT_EQ(std::get<0>(both.value()), 5);
  auto pure = run(comm::try_all(comm_task(true), comm_task(false)));
  static_assert(std::is_same_v<decltype(pure), comm::Result<std::tuple<int, int>>>);
  EXPECT_EQ(pure.error().code(), comm::Code::kRefused);
  std::vector<Task<comm::Result<void>>> tasks;
  tasks.push_back(comm::as_task(context_.sleep(1ms)));
  EXPECT_TRUE(run(comm::try_all(std::move(tasks))).ok());
  std::vector<Task<Result<long>>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(returned(true));
  auto numbers = run(comm::try_all(std::move(calls)));
  static_assert(std::is_same_v<decltype(numbers), Result<std::vector<long>>>);
  EXPECT_EQ(numbers.value(), (std::vector<long>{5, 5, 5}));
  std::vector<Task<Result<int>>> some;
  some.push_back(late(context_));
  some.push_back([]() -> Task<Result<int>> { co_return Status(Code::kNotFound, "no such key"); }());
  EXPECT_EQ(run(comm::try_all(std::move(some))).error().message(), "no such key");
}

// Handlers that return results of either library.
struct Mixture {
  comm::Result<std::uint32_t> square(const std::uint32_t& number) {
    if (number > 1000) return comm::Error(comm::Code::kTooLarge, comm::During::kCall);
    return number * number;
  }
  Task<Result<void>> rest(Call& call, const std::uint32_t& ms) {
    co_return co_await call.context().sleep(std::chrono::milliseconds(ms), call.stop());
  }
};

TEST_F(Mixed, HandlersReturnResultsOfEither) {
  Mixture mixture;
  Server server(context_);
  server.add<&Mixture::square>(mixture);
  server.add<&Mixture::rest>(mixture);
  ASSERT_TRUE(server.listen(address_of(context_) + ":0").ok());
  Channel channel = run(rrdma::rpc::connect(context_, server.address(), {}, kPatience)).value_or_throw();
  EXPECT_EQ(run(channel.call<&Mixture::square>(7U, kPatience)).value(), 49U);
  EXPECT_EQ(run(channel.call<&Mixture::square>(7000U, kPatience)).error().code(), Code::kResourceExhausted);
  EXPECT_TRUE(run(channel.call<&Mixture::rest>(1U, kPatience)).ok());
}

// A status as a sender (comm/sender.h).
TEST_F(Mixed, AStatusIsSent) {
  struct Receiver {
    Status* status;
    int* done;
    void set_value() && noexcept { *status = Status(), ++*done; }
    void set_error(Status error) && noexcept { *status = std::move(error), ++*done; }
    void set_error(const std::exception_ptr&) && noexcept { ++*done; }
    void set_stopped() && noexcept { *status = Status(Code::kCancelled), ++*done; }
  };
  Status status(Code::kUnknown);
  int done = 0;
  auto good =
      comm::execution::connect(comm::as_sender(context_, returned_status(true)), Receiver{&status, &done});
  comm::execution::start(good);
  EXPECT_TRUE(status.ok());
  auto bad =
      comm::execution::connect(comm::as_sender(context_, returned_status(false)), Receiver{&status, &done});
  comm::execution::start(bad);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(done, 2);
}

}  // namespace rpc_test::result_test
