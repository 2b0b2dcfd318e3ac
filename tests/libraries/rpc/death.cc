// A server that is killed while calls of every kind wait for it. `death serve ADDRESS` serves. `death wait
// ADDRESS` makes calls in every phase and prints "waiting". It exits with 0 if every call ends once, with
// kUnavailable.
#include <cstdio>
#include <string>
#include <string_view>

#include "rrdma/rpc/rpc.h"

using namespace rrdma;
using namespace std::chrono_literals;

namespace {

constexpr auto kPatience = 30s;

struct Sloth {
  comm::Task<rpc::Result<rpc::Empty>> rest(rpc::Call& call, const std::string&) {
    static_cast<void>(co_await call.context().sleep(1h, call.stop()));
    co_return rpc::Empty{};
  }
  comm::Task<rpc::Status> drip(rpc::Call& call, const std::uint32_t& items, rpc::Writer<std::uint32_t>& out) {
    for (std::uint32_t i = 0; i < items; ++i) {
      rpc::Status sent = co_await out.write(i);
      if (!sent.ok()) co_return sent;
    }
    static_cast<void>(co_await call.context().sleep(1h, call.stop()));
    co_return rpc::Status();
  }
  comm::Task<rpc::Result<rpc::Empty>> ignore(rpc::Call& call, rpc::Reader<std::string>&) {
    static_cast<void>(co_await call.context().sleep(1h, call.stop()));
    co_return rpc::Empty{};
  }
};

comm::Task<> serve(comm::Context& context, const char* address) {
  Sloth sloth;
  rpc::Server server(context);
  server.add<&Sloth::rest>(sloth);
  server.add<&Sloth::drip>(sloth);
  server.add<&Sloth::ignore>(sloth);
  const rpc::Status listening = server.listen(address);
  if (!listening.ok()) throw rpc::Failure(listening);
  std::printf("listening\n");
  std::fflush(stdout);
  static_cast<void>(co_await context.sleep(1h));
}

void judge(const char* phase, const rpc::Status& status, int& wrong) {
  if (status.code() == rpc::Code::kUnavailable) return;
  std::printf("%s: %s\n", phase, status.what().c_str());
  ++wrong;
}

comm::Task<> unary(rpc::Channel& on, const char* phase, std::size_t size, int& wrong) {
  auto rested = co_await on.call<&Sloth::rest>(std::string(size, 'x'), kPatience);
  judge(phase, rested.status(), wrong);
}
comm::Task<> reading(rpc::Channel& on, int& wrong) {
  auto drops = (co_await on.call<&Sloth::drip>(10U, kPatience)).value_or_throw();
  for (;;) {
    auto drop = co_await drops.read(kPatience);
    if (!drop) break;
  }
  judge("reading", drops.status(), wrong);
}
comm::Task<> writing(rpc::Channel& on, int& wrong) {
  auto pages = (co_await on.call<&Sloth::ignore>(kPatience)).value_or_throw();
  rpc::Status sent;
  while (sent.ok()) sent = co_await pages.write(std::string(1000, 'x'), kPatience);
  judge("writing", sent, wrong);
  auto ended = co_await pages.finish(kPatience);
  judge("after writing", ended.status(), wrong);
}
comm::Task<> announce(comm::Context& context) {
  static_cast<void>(co_await context.sleep(300ms));
  std::printf("waiting\n");
  std::fflush(stdout);
}

comm::Task<> wait(comm::Context& context, const char* address, int& wrong) {
  rpc::ChannelOptions options;
  options.keep_alive = 500ms;
  auto connected = co_await rpc::connect(context, address, options, 10s);
  rpc::Channel channel = std::move(connected).value_or_throw();
  co_await comm::when_all(unary(channel, "small", 10, wrong), unary(channel, "large", 100000, wrong),
                          reading(channel, wrong), writing(channel, wrong), announce(context));
  auto late = co_await channel.call<&Sloth::rest>("late", kPatience);
  judge("after the end", late.status(), wrong);
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view role = count > 1 ? words[1] : "";
  if (count != 3 || (role != "serve" && role != "wait"))
    return std::fprintf(stderr, "usage: death serve|wait ADDRESS\n"), 2;
  comm::Context context = comm::Context::open().value_or_throw();
  int wrong = 0;
  context.run(role == "serve" ? serve(context, words[2]) : wait(context, words[2], wrong));
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
