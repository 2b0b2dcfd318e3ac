// A counter that many clients increment with fetch-and-add while its owner sleeps. `counter serve ADDRESS
// CLIENTS` owns it, and prints it after that many clients have disconnected. `counter add ADDRESS TIMES` adds
// one, TIMES times.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "rrdma/comm/comm.h"

using namespace rrdma::comm;

namespace {

Task<> serve_one(Endpoint end, RemoteRef<std::uint64_t> counter) {
  const auto sent = co_await end.send(counter);
  if (!sent) co_return;
  static_cast<void>(co_await end.receive());  // until the client closes
}

Task<> serve(Context& context, const char* address, int clients) {
  alignas(8) std::uint64_t counter[1] = {0};
  auto opened =
      share(context, std::span<std::uint64_t>(counter), Access::kAtomic | Access::kRead).value_or_throw();
  Listener listener = context.listen(address).value_or_throw();
  std::printf("listening at %s\n", std::string(listener.address()).c_str());
  std::fflush(stdout);
  Scope peers;
  for (int i = 0; i < clients; ++i)
    peers.spawn(serve_one((co_await listener.accept()).value_or_throw(), opened.remote()[0]));
  co_await peers.join();
  std::printf("%llu\n", static_cast<unsigned long long>(counter[0]));
}

Task<> add(Context& context, const char* address, int times) {
  Endpoint end = (co_await context.connect(address, std::chrono::seconds(5))).value_or_throw();
  const auto counter = (co_await end.receive()).value_or_throw().as<RemoteRef<std::uint64_t>>();
  std::uint64_t before = 0;
  for (int i = 0; i < times; ++i) before = (co_await end.fetch_add(counter, 1)).value_or_throw();
  std::printf("the last one found %llu\n", static_cast<unsigned long long>(before));
  (co_await end.close()).value_or_throw();
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view role = count == 4 ? words[1] : "";
  if (role != "serve" && role != "add")
    return std::fprintf(stderr, "usage: counter serve ADDRESS CLIENTS | add ADDRESS TIMES\n"), 2;
  Context context = Context::open().value_or_throw();
  context.run(role == "serve" ? serve(context, words[2], std::atoi(words[3]))
                              : add(context, words[2], std::atoi(words[3])));
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
