// The smallest program: two ends of one connection in one process, and one message between them.
#include <cstdio>

#include "rrdma/comm/comm.h"

using namespace rrdma::comm;

Task<> say_hello(Context& context) {
  const std::string host = context.device().addresses.front();
  Listener listener =
      context.listen(host.find(':') == std::string::npos ? host + ":0" : "[" + host + "]:0").value_or_throw();
  auto [near, far] = co_await when_all(context.connect(listener.address()), listener.accept());
  Endpoint client = std::move(near).value_or_throw();
  Endpoint server = std::move(far).value_or_throw();
  (co_await client.send("hello, RDMA")).value_or_throw();
  Message message = (co_await server.receive()).value_or_throw();
  std::printf("%s received \"%s\" from %s\n", context.device().name.c_str(),
              std::string(message.text()).c_str(), std::string(server.peer()).c_str());
}

int main() try {
  Context context = Context::open().value_or_throw();
  context.run(say_hello(context));
} catch (const Failure& failure) {
  return std::fprintf(stderr, "%s\n%s\n", failure.what(), std::string(failure.error().remedy()).c_str()), 1;
}
