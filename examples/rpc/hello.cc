// The smallest service: a class, one of its functions, and a call of it. `hello serve ADDRESS [CLIENTS]`
// serves, `hello call ADDRESS NAME` asks.
#include <cstdio>
#include <string>
#include <string_view>

#include "rrdma/rpc/rpc.h"

using namespace rrdma;

struct Greeter {
  rpc::Result<std::string> greet(const std::string& name) {
    if (name.empty()) return {rpc::Code::kInvalidArgument, "who is it?"};
    return "hello, " + name;
  }
};

comm::Task<> serve(comm::Context& context, const char* address, unsigned long clients) {
  Greeter greeter;
  rpc::Server server(context);
  server.add<&Greeter::greet>(greeter);
  const rpc::Status listening = server.listen(address);
  if (!listening.ok()) throw rpc::Failure(listening);
  std::printf("listening at %s\n", std::string(server.address()).c_str());
  std::fflush(stdout);
  // Serve until that many clients have come and gone; 0: forever.
  while (clients == 0 || server.counters().connections < clients || server.connections() != 0)
    static_cast<void>(co_await context.sleep(std::chrono::milliseconds(20)));
}

comm::Task<> ask(comm::Context& context, const char* address, std::string name) {
  auto connected = co_await rpc::connect(context, address, rpc::ChannelOptions().expecting<&Greeter::greet>(),
                                         std::chrono::seconds(5));
  rpc::Channel channel = std::move(connected).value_or_throw();
  auto greeting = co_await channel.call<&Greeter::greet>(name, std::chrono::seconds(1));
  std::printf("%s\n", std::move(greeting).value_or_throw().c_str());
}

int main(int count, char** words) try {
  const std::string_view role = count > 1 ? words[1] : "";
  if (!(role == "serve" && (count == 3 || count == 4)) && !(role == "call" && count == 4))
    return std::fprintf(stderr, "usage: hello serve ADDRESS [CLIENTS] | hello call ADDRESS NAME\n"), 2;
  comm::Context context = comm::Context::open().value_or_throw();
  context.run(role == "serve" ? serve(context, words[2], count > 3 ? std::stoul(words[3]) : 0)
                              : ask(context, words[2], words[3]));
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
