// A server that is replaced by a new process while calls run. `restart serve ADDRESS LEDGER` takes the
// address over, prints "serving", and drains after SIGTERM. Each execution of a call adds a byte to the
// ledger. `restart call ADDRESS` calls until SIGTERM, then prints the numbers of its calls. A call that fails
// ends it.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "rrdma/rpc/rpc.h"

using namespace rrdma;
using namespace std::chrono_literals;

namespace {

constexpr auto kPatience = 60s;
constexpr int kCallers = 8;

volatile std::sig_atomic_t told_to_end = 0;

struct Till {
  explicit Till(int file) : ledger(file) {}
  // Not idempotent: it is repeated only if it has not started.
  comm::Task<rpc::Result<std::uint32_t>> pay(rpc::Call& call, const std::uint32_t& number) {
    if (::write(ledger, "x", 1) != 1) co_return rpc::Status(rpc::Code::kDataLoss);
    auto slept = co_await call.context().sleep(std::chrono::microseconds(number % 7 * 500));
    if (!slept) co_return rpc::Status(rpc::Code::kAborted);
    co_return number + 1;
  }
  comm::Task<rpc::Status> talk(rpc::Call&, rpc::Reader<std::string>& in, rpc::Writer<std::string>& out) {
    for (;;) {
      auto item = co_await in.read();
      if (!item) co_return in.status();
      rpc::Status sent = co_await out.write(*item);
      if (!sent.ok()) co_return sent;
    }
  }
  int ledger;
};

comm::Task<> serve(comm::Context& context, std::string address, int ledger) {
  Till till(ledger);
  rpc::Server server(context);
  server.add<&Till::pay>(till);
  server.add<&Till::talk>(till);
  rpc::Status serving = co_await server.take_over(address, kPatience);
  if (!serving.ok()) throw rpc::Failure(serving);
  std::printf("serving\n");
  std::fflush(stdout);
  while (told_to_end == 0) static_cast<void>(co_await context.sleep(1ms));
  rpc::Status drained = co_await server.drain(kPatience);
  if (!drained.ok()) throw rpc::Failure(drained);
}

struct Counts {
  unsigned long paid = 0, talks = 0;
};

comm::Task<> pay_on(rpc::Client& client, Counts& counts) {
  for (std::uint32_t number = 0; told_to_end == 0; ++number) {
    auto paid = co_await client.call<&Till::pay>(number, kPatience);
    if (std::move(paid).value_or_throw() != number + 1) throw std::runtime_error("a wrong answer");
    ++counts.paid;
  }
}

comm::Task<> talk_on(comm::Context& context, rpc::Client& client, Counts& counts) {
  while (told_to_end == 0) {
    auto opened = co_await client.call<&Till::talk>(kPatience);
    auto stream = std::move(opened).value_or_throw();
    // The server refuses a stream that came too late for it. It has then read nothing.
    bool refused = false;
    for (int i = 0; i < 10 && !refused; ++i) {
      const std::string text(static_cast<std::size_t>(1 + i * 3000), 't');
      rpc::Status sent = co_await stream.write(text);
      auto item = co_await stream.read();
      refused = i == 0 && !item && stream.status().refused();
      if (refused) break;
      if (!sent.ok() || !item) throw rpc::Failure(stream.status());
      if (*item != text) throw std::runtime_error("a wrong item");
      static_cast<void>(co_await context.sleep(1ms));
    }
    if (refused) continue;
    rpc::Status ended = co_await stream.finish();
    if (!ended.ok()) throw rpc::Failure(ended);
    ++counts.talks;
  }
}

comm::Task<> call(comm::Context& context, std::string address) {
  rpc::ClientOptions options;
  options.wait_for_ready = true;
  rpc::Client client(context, {std::move(address)}, options);
  Counts counts;
  comm::Scope scope;
  for (int i = 0; i < kCallers; ++i) scope.spawn(pay_on(client, counts));
  scope.spawn(talk_on(context, client, counts));
  std::printf("calling\n");
  std::fflush(stdout);
  co_await scope.join();
  std::printf("%lu paid, %lu talks, %llu connections\n", counts.paid, counts.talks,
              static_cast<unsigned long long>(client.counters().connections));
}

}  // namespace

int main(int count, char** words) try {
  std::signal(SIGTERM, [](int) { told_to_end = 1; });
  comm::Context context = comm::Context::open().value_or_throw();
  if (count == 4 && std::string_view(words[1]) == "serve") {
    const int ledger = ::open(words[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    context.run(serve(context, words[2], ledger));
  } else if (count == 3 && std::string_view(words[1]) == "call") {
    context.run(call(context, words[2]));
  } else {
    return std::fprintf(stderr, "usage: restart serve ADDRESS LEDGER | restart call ADDRESS\n"), 2;
  }
} catch (const std::exception& failure) {
  return std::printf("%s\n", failure.what()), 1;
}
