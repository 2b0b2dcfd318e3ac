// Echo with the objects of rrdma::comm and plain polling: start an operation, then poll until it is done.
// `echo_objects ADDRESS` serves one client, `echo_objects ADDRESS WORDS` asks.
#include <cstdio>

#include "rrdma/comm/comm.h"

using namespace rrdma::comm;

namespace {

// Polls until the operation is done, and returns its result.
template <typename O>
auto finish(Context& context, O operation) {
  operation.start();
  while (!operation.done()) context.wait();
  return operation.await_resume();
}

void serve(Context& context, const char* address) {
  Listener listener = context.listen(address).value_or_throw();
  Endpoint end = finish(context, listener.accept()).value_or_throw();
  for (;;) {
    auto message = finish(context, end.receive());
    if (!message) return;  // closed, after everything sent was received
    finish(context, end.send(message->bytes())).value_or_throw();
  }
}

void ask(Context& context, const char* address, const char* words) {
  Endpoint end = finish(context, context.connect(address, std::chrono::seconds(5))).value_or_throw();
  finish(context, end.send(words)).value_or_throw();
  Message answer = finish(context, end.receive()).value_or_throw();
  std::printf("%.*s\n", static_cast<int>(answer.size()), answer.text().data());
  finish(context, end.close()).value_or_throw();
}

}  // namespace

int main(int count, char** words) try {
  if (count < 2) return std::fprintf(stderr, "usage: echo_objects ADDRESS [WORDS]\n"), 2;
  Context context = Context::open().value_or_throw();
  count > 2 ? ask(context, words[1], words[2]) : serve(context, words[1]);
} catch (const Failure& failure) {
  return std::fprintf(stderr, "%s\n%s\n", failure.what(), std::string(failure.error().remedy()).c_str()), 1;
}
