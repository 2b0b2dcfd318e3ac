// A server that kills itself in a given phase of a call, so that the phase is certain. `dying serve ADDRESS
// PHASE` serves until then. `dying call ADDRESS PHASE` makes the call. It exits with 0 if the call ends once
// with kUnavailable in time, calls to another server continue meanwhile, and no memory is leaked.
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "lib/rpc/frame.h"
#include "rrdma/rpc/rpc.h"

using namespace rrdma;
using namespace std::chrono_literals;
namespace wire = rrdma::rpc::detail;

namespace {

constexpr auto kPatience = 40s;
// Three times the keep-alive, and the retransmissions of the transport, on a loaded machine.
constexpr auto kInTime = 20s;
constexpr std::size_t kLarge = 4 << 20;

[[noreturn]] void die() {
  static_cast<void>(std::raise(SIGKILL));
  std::abort();
}

void say_listening() {
  std::printf("listening\n");
  std::fflush(stdout);
}

// ---- a server that dies in a handler ----

struct Mortal {
  rpc::Result<std::string> echo(const std::string&) { die(); }
  comm::Task<rpc::Status> drip(rpc::Call& call, const std::uint32_t& items, rpc::Writer<std::uint32_t>& out) {
    for (std::uint32_t i = 0; i < items; ++i) static_cast<void>(co_await out.write(i));
    static_cast<void>(co_await call.context().sleep(50ms));
    die();
  }
  comm::Task<rpc::Result<rpc::Empty>> drink(rpc::Call&, rpc::Reader<std::string>& in) {
    for (int i = 0; i < 10; ++i) static_cast<void>(co_await in.read());
    die();
  }
};

comm::Task<> serve(comm::Context& context, const char* address) {
  Mortal mortal;
  rpc::Server server(context);
  server.add<&Mortal::echo>(mortal);
  server.add<&Mortal::drip>(mortal);
  server.add<&Mortal::drink>(mortal);
  const rpc::Status listening = server.listen(address);
  if (!listening.ok()) throw rpc::Failure(listening);
  say_listening();
  static_cast<void>(co_await context.sleep(1h));
}

// ---- a peer that dies between the frames ----

void send_part(comm::Endpoint& end, std::uint32_t call) {
  wire::Frame frame;
  frame.kind = wire::Kind::kPart;
  frame.call = call;
  std::string octets(wire::head_size(frame) + 1000, 'x');
  wire::emit_head(frame, reinterpret_cast<std::byte*>(octets.data()));
  comm::then(end.send(octets), [](const auto&) {});
}

comm::Task<> die_between(comm::Context& context, const char* address, std::string_view phase) {
  comm::Listener listener = context.listen(address).value_or_throw();
  say_listening();
  auto incoming = co_await listener.next();
  if (phase == "handshake") die();
  wire::ServerHello hello;
  hello.max_calls = 100;
  hello.max_argument = 64 << 20;
  hello.window = 1 << 20;
  const auto octets = wire::emit(hello);
  comm::Profile profile;
  profile.hello = octets;
  auto accepted = co_await std::move(incoming).value_or_throw().accept(context, profile);
  comm::Endpoint end = std::move(accepted).value_or_throw();
  if (phase == "sent") {
    static_cast<void>(co_await context.sleep(100ms));
    die();
  }
  auto received = co_await end.receive();
  const comm::Message message = std::move(received).value_or_throw();
  const auto frame = wire::parse_frame(message.bytes());
  if (!frame) throw std::runtime_error("this is no call");
  comm::Buffer memory = context.pool().take(kLarge).value_or_throw();
  if (phase == "read") {
    const comm::RemoteSpan<const std::byte> from(frame->offered.address, frame->offered.key,
                                                 frame->offered.length);
    comm::then(end.read(from, std::move(memory)), [](const auto&) {});
  } else if (phase == "write") {
    const comm::RemoteSpan<std::byte> into(frame->lent.address, frame->lent.key, frame->lent.length);
    comm::then(end.write(std::move(memory), into), [](const auto&) {});
  } else {
    send_part(end, frame->call);
    static_cast<void>(co_await context.sleep(20ms));
  }
  // In flight, and not complete.
  static_cast<void>(co_await context.yield());
  die();
}

// ---- the caller ----

comm::Task<rpc::Status> phase_of(rpc::Channel& on, std::string_view phase) {
  if (phase == "half of the results") {
    auto drops = (co_await on.call<&Mortal::drip>(10U, kPatience)).value_or_throw();
    for (;;) {
      auto drop = co_await drops.read();
      if (!drop) co_return drops.status();
    }
  }
  if (phase == "half of the arguments") {
    auto cups = (co_await on.call<&Mortal::drink>(kPatience)).value_or_throw();
    rpc::Status sent;
    while (sent.ok()) sent = co_await cups.write(std::string(1000, 'x'));
    auto ended = co_await cups.finish();
    co_return ended.status().code() == sent.code() ? sent : ended.status();
  }
  const bool large = phase == "read" || phase == "large handler";
  auto echoed = co_await on.call<&Mortal::echo>(std::string(large ? kLarge : 10, 'x'),
                                                rpc::CallOptions(kPatience).lending(kLarge));
  co_return echoed.status();
}

comm::Task<rpc::Status> call(comm::Context& context, const char* address, std::string_view phase,
                             unsigned& ended) {
  rpc::ChannelOptions options;
  options.keep_alive = 500ms;
  options.after = [&](const auto&...) { ++ended; };
  auto connected = co_await rpc::connect(context, address, options, kInTime);
  if (!connected.ok()) {
    ended = 1;
    co_return connected.status();
  }
  rpc::Status status = co_await phase_of(*connected, phase);
  if (connected->calls() != 0) co_return rpc::Status(rpc::Code::kInternal, "calls stay behind");
  co_return status;
}

// A server that stays alive and is called all the time.
struct Alive {
  std::uint32_t next(const std::uint32_t& number) { return number + 1; }
};
comm::Task<unsigned> ask_the_other(comm::Context& context, rpc::Channel& other, const bool& over) {
  unsigned failures = 0;
  std::uint32_t count = 0;
  while (!over || count < 10) {
    auto next = co_await other.call<&Alive::next>(count, kPatience);
    if (!next.ok() || *next != count + 1) ++failures;
    ++count;
    static_cast<void>(co_await context.sleep(5ms));
  }
  co_return failures;
}

int judge(comm::Context& context, const char* address, std::string_view phase) {
  Alive alive;
  rpc::Server server(context);
  server.add<&Alive::next>(alive);
  const rpc::Status listening = server.listen("10.9.0.1:0");
  if (!listening.ok()) throw rpc::Failure(listening);
  rpc::Channel other = context.run(rpc::connect(context, server.address(), {}, kPatience)).value_or_throw();
  const std::size_t memory = context.pool().in_use();
  bool over = false;
  unsigned ended = 0;
  rpc::Status status;
  const auto timed = [&]() -> comm::Task<> {
    status = co_await call(context, address, phase, ended);
    over = true;
  };
  const auto begin = comm::Clock::now();
  auto [none, failures] = context.run(comm::when_all(timed(), ask_the_other(context, other, over)));
  const auto took = std::chrono::duration<double>(comm::Clock::now() - begin);
  const bool returned =
      context.run_until([&] { return context.pool().in_use() <= memory; }, comm::Clock::now() + kInTime);
  std::printf("%.*s: %s after %.2f s, told %u times, %u calls of others failed, memory %s\n",
              static_cast<int>(phase.size()), phase.data(), status.what().c_str(), took.count(), ended,
              failures, returned ? "came back" : "stays behind");
  const bool good =
      status.code() == rpc::Code::kUnavailable && took < kInTime + 1s && ended == 1 && failures == 0;
  return good && returned ? 0 : 1;
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view role = count > 1 ? words[1] : "";
  if (count != 4 || (role != "serve" && role != "call"))
    return std::fprintf(stderr, "usage: dying serve|call ADDRESS PHASE\n"), 2;
  const std::string_view phase = words[3];
  comm::Context context = comm::Context::open().value_or_throw();
  if (role == "call") return judge(context, words[2], phase);
  const bool in_a_handler = phase.find("handler") != phase.npos || phase.find("half") != phase.npos;
  context.run(in_a_handler ? serve(context, words[2]) : die_between(context, words[2], phase));
  return 0;
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
