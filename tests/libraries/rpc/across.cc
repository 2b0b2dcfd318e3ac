// Calls between two programs that may use different devices. `across serve ADDRESS` serves until it is
// stopped. `across call ADDRESS` makes calls of every shape and size and checks the results.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/libraries/rpc/world.h"

using namespace rpc_test;

namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

Task<> serve(Context& context, const char* address) {
  Desk desk;
  Server server(context);
  add_all(server, desk);
  const Status listening = server.listen(address);
  if (!listening.ok()) throw Failure(listening);
  std::printf("listening at %s\n", std::string(server.address()).c_str());
  std::fflush(stdout);
  static_cast<void>(co_await context.sleep(1h));
}

Task<> call_with_one_argument(Channel& on) {
  require((co_await on.call<&Desk::add>({40, 2}, kPatience)).value_or_throw() == 42, "add");
  for (const std::size_t size : {std::size_t{0}, std::size_t{200}, std::size_t{4064}, std::size_t{4081},
                                 std::size_t{65536}, std::size_t{400'003}}) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + size);
    require((co_await on.call<&Desk::echo>(text, kPatience)).value_or_throw() == text, "echo in parts");
    CallOptions lending = CallOptions(kPatience).lending(size + 1);
    require((co_await on.call<&Desk::echo>(text, lending)).value_or_throw() == text, "echo by lent memory");
  }
  for (std::uint32_t code = 1; code <= kHighestCode; ++code) {
    const Status status = (co_await on.call<&Desk::fail>(code, kPatience)).status();
    require(status.code() == static_cast<Code>(code) && status.details() == "details", "a status");
  }
  const Status late = (co_await on.call<&Desk::nap>(20'000U, 100ms)).status();
  require(late.code() == Code::kDeadlineExceeded, "a deadline");
}

Task<> call_with_streams(Channel& on) {
  auto rows = (co_await on.call<&Desk::count>(Range{300, 100}, kPatience)).value_or_throw();
  unsigned seen = 0;
  for (;;) {
    auto row = co_await rows.read(kPatience);
    if (!row) break;
    require(*row == std::string(100, static_cast<char>('a' + seen % 26)), "a stream of results");
    ++seen;
  }
  require(seen == 300 && rows.status().ok(), "a stream of results ended early");
  auto numbers = (co_await on.call<&Desk::sum>(kPatience)).value_or_throw();
  for (std::uint32_t i = 0; i < 300; ++i) {
    const Status sent = co_await numbers.write(i, kPatience);
    require(sent.ok(), "a stream of arguments");
  }
  require((co_await numbers.finish(kPatience)).value_or_throw() == 299 * 300 / 2, "the sum of a stream");
  auto both = (co_await on.call<&Desk::talk>(kPatience)).value_or_throw();
  for (const std::size_t size : {std::size_t{3}, std::size_t{5000}, std::size_t{100'000}}) {
    const std::string text(size, 'z');
    const Status sent = co_await both.write(text, kPatience);
    require(sent.ok(), "a stream both ways");
    auto back = co_await both.read(kPatience);
    require(back.has_value() && *back == text + "!", "what came back of a stream both ways");
  }
  const Status ended = co_await both.finish(kPatience);
  require(ended.ok(), "the end of a stream both ways");
}

Task<> call_with_bulk(Context& context, Channel& on) {
  auto bulk = Bulk<std::uint32_t>::of(context, 100'000).value_or_throw();
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < 100'000; ++i) sum += bulk[i] = i * 3;
  require((co_await on.call<&Desk::weigh>(std::move(bulk), kPatience)).value_or_throw() == sum,
          "a bulk argument");
  auto made =
      (co_await on.call<&Desk::make>(50'000U, CallOptions(kPatience).lending(200'000))).value_or_throw();
  require(made.size() == 50'000, "the size of a bulk result");
  for (std::uint32_t i = 0; i < 50'000; ++i) require(made[i] == i, "a bulk result");
}

Task<> call(Context& context, const char* address) {
  Channel channel = (co_await rrdma::rpc::connect(context, address, {}, kPatience)).value_or_throw();
  co_await call_with_one_argument(channel);
  co_await call_with_streams(channel);
  co_await call_with_bulk(context, channel);
  std::printf("good\n");
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view role = count == 3 ? words[1] : "";
  if (role != "serve" && role != "call") return std::fprintf(stderr, "usage: across serve|call ADDRESS\n"), 2;
  Context context = Context::open().value_or_throw();
  context.run(role == "serve" ? serve(context, words[2]) : call(context, words[2]));
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
