// Two programs, one of which is killed or stopped. `death serve ADDRESS` accepts and does nothing more.
// `death wait ADDRESS` waits in every possible way and reports it. It succeeds if every waiter resumes with
// an error that names the peer. `death idle ADDRESS` succeeds if its connection is there after three seconds.
#include <cstdio>
#include <string>
#include <string_view>

#include "rrdma/comm/comm.h"

using namespace rrdma::comm;
using namespace std::chrono_literals;

namespace {

int mistakes = 0;

void check(const Error& error, std::string_view peer) {
  const bool good =
      (error.code() == Code::kPeerGone || error.code() == Code::kClosedByPeer) && error.peer() == peer;
  std::printf("%s: %s\n", good ? "good" : "WRONG", error.what().c_str());
  if (!good) ++mistakes;
}

Task<> serve(Context& context, const char* address) {
  Listener listener = context.listen(address).value_or_throw();
  std::printf("listening at %s\n", std::string(listener.address()).c_str());
  std::fflush(stdout);
  std::vector<Endpoint> ends;
  std::vector<Message> loans;
  Profile narrow;
  narrow.receive_depth = 4;
  for (;;) ends.push_back((co_await listener.accept(narrow)).value_or_throw());
}

Task<> send_until_it_fails(Endpoint& end) {
  for (;;) {
    auto sent = co_await end.send(std::string(1000, 'x'));
    if (!sent) co_return check(sent.error(), end.peer());
  }
}

Task<> wait(Context& context, const char* address) {
  Profile lively;
  lively.keep_alive = 200ms;
  Endpoint end = (co_await context.connect(address, lively, 20s)).value_or_throw();
  Endpoint silent = (co_await context.connect(address, lively, 20s)).value_or_throw();
  Scope scope;
  scope.spawn(send_until_it_fails(end));
  scope.spawn([](Endpoint& e) -> Task<> { check((co_await e.receive()).error(), e.peer()); }(end));
  scope.spawn([](Endpoint& e) -> Task<> { check((co_await e.receive()).error(), e.peer()); }(silent));
  scope.spawn([](Endpoint& e) -> Task<> {
    auto late = co_await e.receive(100ms);
    if (late.error().code() != Code::kDeadline) ++mistakes;
  }(silent));
  static_cast<void>(co_await context.sleep(300ms));
  std::printf("waiting\n");
  std::fflush(stdout);
  co_await scope.join();
}

Task<> idle(Context& context, const char* address) {
  Profile lively;
  lively.keep_alive = 50ms;
  Endpoint end = (co_await context.connect(address, lively, 20s)).value_or_throw();
  std::printf("idle\n");
  std::fflush(stdout);
  static_cast<void>(co_await context.sleep(3s));
  if (!end.open()) ++mistakes;
  (co_await end.send("still here", 20s)).value_or_throw();
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view role = count == 3 ? words[1] : "";
  Context context = Context::open().value_or_throw();
  context.run(role == "serve"  ? serve(context, words[2])
              : role == "idle" ? idle(context, words[2])
                               : wait(context, words[2]));
  return mistakes == 0 ? 0 : 1;
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
