// Echo with coroutines. `echo_tasks ADDRESS` serves one client, `echo_tasks ADDRESS WORDS` asks.
#include <cstdio>

#include "rrdma/comm/comm.h"

using namespace rrdma::comm;

Task<> serve(Context& context, const char* address) {
  Listener listener = context.listen(address).value_or_throw();
  Endpoint end = (co_await listener.accept()).value_or_throw();
  for (;;) {
    auto message = co_await end.receive();
    if (!message) co_return;
    (co_await end.send(message->bytes())).value_or_throw();
  }
}

Task<> ask(Context& context, const char* address, const char* words) {
  Endpoint end = (co_await context.connect(address, std::chrono::seconds(5))).value_or_throw();
  (co_await end.send(words)).value_or_throw();
  Message answer = (co_await end.receive()).value_or_throw();
  std::printf("%.*s\n", static_cast<int>(answer.size()), answer.text().data());
  (co_await end.close()).value_or_throw();
}

int main(int count, char** words) try {
  if (count < 2) return std::fprintf(stderr, "usage: echo_tasks ADDRESS [WORDS]\n"), 2;
  Context context = Context::open().value_or_throw();
  context.run(count > 2 ? ask(context, words[1], words[2]) : serve(context, words[1]));
} catch (const Failure& failure) {
  return std::fprintf(stderr, "%s\n%s\n", failure.what(), std::string(failure.error().remedy()).c_str()), 1;
}
