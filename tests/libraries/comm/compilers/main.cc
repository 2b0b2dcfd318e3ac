// Calls its own service through the shared libraries, and awaits a coroutine of the other object directly.
#include <cstdio>
#include <string>

#include "conditions.h"
#include "service.h"

using namespace rrdma;

comm::Task<> ask(comm::Context& context, std::string address) {
  auto connected = co_await rpc::connect(context, address, {}, std::chrono::seconds(10));
  rpc::Channel channel = std::move(connected).value_or_throw();
  auto answer = co_await channel.call<&Greeter::greet>(std::string("hello"), std::chrono::seconds(10));
  const std::string compiler = co_await compiler_of_service(context);
  if (std::move(answer).value_or_throw() != "hello, " + compiler) throw std::runtime_error("a wrong answer");
}

// Runs each form to its end, and destroys it before its start and while it waits.
comm::Task<> try_conditions(comm::Context& context) {
  const Ask ask(context, 1);
  for (const Form& form : forms()) {
    static_cast<void>(form.run(ask, 1));
    {
      auto waiting = form.run(ask, 1);
      waiting.start(std::noop_coroutine());
    }
    const int value = co_await form.run(ask, 1);
    if (value != form.wanted || Text::alive != 0 || Text::broken != 0)
      throw std::runtime_error(std::string(form.name) + ": " + std::to_string(value) + ", " +
                               std::to_string(Text::alive) + " left, " + std::to_string(Text::broken) +
                               " broken");
  }
}

int main() try {
  comm::Context context = comm::Context::open().value_or_throw();
  Greeter greeter{&context};
  rpc::Server server(context);
  server.add<&Greeter::greet>(greeter);
  const rpc::Status listening = server.listen("10.9.0.1:0");
  if (!listening.ok()) throw rpc::Failure(listening);
  context.run(ask(context, std::string(server.address())));
  context.run(try_conditions(context));
  std::puts("all coroutines ran");
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
