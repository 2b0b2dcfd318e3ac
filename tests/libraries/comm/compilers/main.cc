// Calls its own service through the shared libraries, and awaits a coroutine of the other object directly.
#include <cstdio>
#include <string>

#include "service.h"

using namespace rrdma;

comm::Task<> ask(comm::Context& context, std::string address) {
  auto connected = co_await rpc::connect(context, address, {}, std::chrono::seconds(10));
  rpc::Channel channel = std::move(connected).value_or_throw();
  auto answer = co_await channel.call<&Greeter::greet>(std::string("hello"), std::chrono::seconds(10));
  const std::string compiler = co_await compiler_of_service(context);
  // Both have waited, so every poll in between has checked the coroutines that had started.
  if (std::move(answer).value_or_throw() != "hello, " + compiler) throw std::runtime_error("a wrong answer");
  std::puts("all coroutines ran");
}

int main() try {
  comm::Context context = comm::Context::open().value_or_throw();
  Greeter greeter{&context};
  rpc::Server server(context);
  server.add<&Greeter::greet>(greeter);
  const rpc::Status listening = server.listen("10.9.0.1:0");
  if (!listening.ok()) throw rpc::Failure(listening);
  context.run(ask(context, std::string(server.address())));
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
