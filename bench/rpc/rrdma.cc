// rpc_bench PROGRAM HOST:PORT [COUNT [SIZE]]: rrdma::rpc, with echo.proto and with plain C++ types.
// RPC_BENCH_WAIT selects how to wait: poll, event, or the library's default. With RPC_BENCH_SECURE,
// connections are encrypted.
#include <echo.rrdma.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <fstream>
#include <map>

#include "bench/rpc/bench.h"

namespace rpc_bench {

using namespace rrdma;
using comm::Task;

// Plain C++ types in addition to the messages.
struct Plain {
  std::uint64_t same(const std::uint64_t& value) { return value; }
  std::uint64_t weigh(rpc::Bulk<std::byte> octets) { return octets.size(); }
  // Resident memory of this server in MiB.
  double resident() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("VmRSS:", 0) == 0) return std::strtod(line.c_str() + 6, nullptr) / 1024;
    }
    return 0;
  }
};

class Service : public EchoService {
 public:
  Task<rpc::Result<Octets>> say(rpc::Call&, const Octets& octets) override { co_return octets; }
  Task<rpc::Result<Amount>> sink(rpc::Call&, const Octets& octets) override {
    Amount amount;
    amount.set_count(octets.data().size());
    co_return amount;
  }
  Task<rpc::Status> pour(rpc::Call&, const Amount& amount, rpc::Writer<Octets>& out) override {
    Octets item;
    item.set_data(std::string(amount.size(), 'x'));
    for (std::uint64_t i = 0; i < amount.count(); ++i) {
      rpc::Status sent = co_await out.write(item);
      if (!sent.ok()) co_return sent;
    }
    co_return rpc::Status();
  }
  Task<rpc::Result<Amount>> drink(rpc::Call&, rpc::Reader<Octets>& in) override {
    Amount amount;
    Octets item;
    while (co_await in.read_into(item)) amount.set_count(amount.count() + 1);
    co_return amount;
  }
};

namespace {

constexpr std::size_t kBulksUnderWay = 4;

comm::Context open() {
  comm::ContextOptions options;
  const char* wait = std::getenv("RPC_BENCH_WAIT");
  if (wait != nullptr && std::string_view(wait) == "poll") options.wait = comm::Wait::poll();
  if (wait != nullptr && std::string_view(wait) == "event") options.wait = comm::Wait::event();
  return comm::Context::open(options).value_or_throw();
}

// Encrypts connections if RPC_BENCH_SECURE asks for it.
template <typename Options>
Options secured(Options options) {
  if (std::getenv("RPC_BENCH_SECURE") != nullptr) {
    options.secret = "of the benchmark";
    options.encryption = rpc::Encryption::kAlways;
  }
  return options;
}

// Opens a TCP port beside the RDMA port; bench/stage.py waits for it.
void say_ready(const std::string& address) {
  const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(std::atoi(address.c_str() + address.rfind(':') + 1)));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(file, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0 || ::listen(file, 1) != 0)
    std::perror("rpc_bench: the TCP port");
}

Task<> serve(comm::Context& context, const Arguments& arguments) {
  Plain plain;
  Service service;
  rpc::Server server(context, secured(rpc::ServerOptions()));
  server.add(service);
  server.add<&Plain::same>(plain);
  server.add<&Plain::weigh>(plain);
  server.add<&Plain::resident>(plain);
  const rpc::Status listening = server.listen(arguments.address);
  if (!listening.ok()) throw rpc::Failure(listening);
  say_ready(arguments.address);
  static_cast<void>(co_await context.sleep(std::chrono::hours(1)));
}

Task<rpc::Channel> connect(comm::Context& context, const Arguments& arguments, std::uint16_t depth = 64) {
  rpc::ChannelOptions options = secured(rpc::ChannelOptions());
  options.depth = depth;
  auto connected = co_await rpc::connect(context, arguments.address, options, std::chrono::seconds(10));
  co_return std::move(connected).value_or_throw();
}

Octets octets_of(std::size_t size) {
  Octets octets;
  octets.set_data(std::string(size, 'x'));
  return octets;
}

Task<> plain_latency(comm::Context& context, const Arguments& arguments) {
  rpc::Channel channel = co_await connect(context, arguments);
  Trips trips(arguments.count);
  for (std::uint64_t i = 0, warm = warm_up(arguments.count); i < arguments.count + warm; ++i) {
    const auto begin = Time::now();
    auto same = co_await channel.call<&Plain::same>(i);
    if (i >= warm) trips.add(Time::now() - begin);
    static_cast<void>(std::move(same).value_or_throw());
  }
  trips.report();
}

Task<> latency(comm::Context& context, const Arguments& arguments) {
  EchoClient client(co_await connect(context, arguments));
  const Octets octets = octets_of(arguments.size);
  Trips trips(arguments.count);
  for (std::uint64_t i = 0, warm = warm_up(arguments.count); i < arguments.count + warm; ++i) {
    const auto begin = Time::now();
    auto said = co_await client.say(octets);
    if (i >= warm) trips.add(Time::now() - begin);
    static_cast<void>(std::move(said).value_or_throw());
  }
  trips.report();
}

Task<> say_many(EchoClient& client, const Octets& octets, std::uint64_t& left) {
  while (left != 0) {
    --left;
    auto said = co_await client.say(octets);
    static_cast<void>(std::move(said).value_or_throw());
  }
}
Task<> weigh_many(rpc::Channel& channel, std::size_t size, std::uint64_t& left) {
  while (left != 0) {
    --left;
    auto bulk = rpc::Bulk<std::byte>::of(channel.context(), size).value_or_throw();
    auto weighed = co_await channel.call<&Plain::weigh>(std::move(bulk));
    static_cast<void>(std::move(weighed).value_or_throw());
  }
}

// Write to the memory that weigh_many() takes repeatedly: pages that were never written all map to the zero
// page.
void fill_bulks(comm::Context& context, std::size_t size) {
  std::vector<rpc::Bulk<std::byte>> bulks;
  for (std::size_t i = 0; i < kBulksUnderWay; ++i) {
    bulks.push_back(rpc::Bulk<std::byte>::of(context, size).value_or_throw());
    std::memset(bulks.back().begin(), 'x', size);
  }
}

Task<> rate(comm::Context& context, const Arguments& arguments) {
  EchoClient client(co_await connect(context, arguments));
  const Octets octets = octets_of(arguments.size);
  for (std::uint64_t count : {warm_up(arguments.count), arguments.count}) {
    std::uint64_t left = count;
    comm::Scope callers;
    const auto begin = Time::now();
    for (std::size_t i = 0; i < kUnderWay; ++i) callers.spawn(say_many(client, octets, left));
    co_await callers.join();
    if (count == arguments.count)
      print("calls_per_s", static_cast<double>(count) * 1e9 / nanoseconds(Time::now() - begin));
  }
}

Task<> bulk(comm::Context& context, const Arguments& arguments) {
  rpc::Channel channel = co_await connect(context, arguments);
  fill_bulks(context, arguments.size);
  for (std::uint64_t count : {warm_up(arguments.count), arguments.count}) {
    std::uint64_t left = count;
    comm::Scope callers;
    const auto begin = Time::now();
    for (std::size_t i = 0; i < kBulksUnderWay; ++i) callers.spawn(weigh_many(channel, arguments.size, left));
    co_await callers.join();
    if (count == arguments.count)
      print("bandwidth_gbs", static_cast<double>(count * arguments.size) / nanoseconds(Time::now() - begin));
  }
}

Task<> sink(comm::Context& context, const Arguments& arguments) {
  EchoClient client(co_await connect(context, arguments));
  const Octets octets = octets_of(arguments.size);
  for (std::uint64_t count : {warm_up(arguments.count), arguments.count}) {
    const auto begin = Time::now();
    for (std::uint64_t i = 0; i < count; ++i) {
      auto sunk = co_await client.sink(octets);
      static_cast<void>(std::move(sunk).value_or_throw());
    }
    if (count == arguments.count)
      print("bandwidth_gbs", static_cast<double>(count * arguments.size) / nanoseconds(Time::now() - begin));
  }
}

Task<> stream(comm::Context& context, const Arguments& arguments) {
  EchoClient client(co_await connect(context, arguments));
  for (std::uint64_t count : {warm_up(arguments.count), arguments.count}) {
    Amount amount;
    amount.set_count(count);
    amount.set_size(arguments.size);
    const auto begin = Time::now();
    auto poured = co_await client.pour(amount);
    auto items = std::move(poured).value_or_throw();
    std::uint64_t seen = 0;
    Octets item;
    while (co_await items.read_into(item)) ++seen;
    if (seen != count) throw rpc::Failure(items.status());
    if (count == arguments.count)
      print("items_per_s", static_cast<double>(count) * 1e9 / nanoseconds(Time::now() - begin));
  }
}

Task<> stream_up(comm::Context& context, const Arguments& arguments) {
  EchoClient client(co_await connect(context, arguments));
  const Octets item = octets_of(arguments.size);
  for (std::uint64_t count : {warm_up(arguments.count), arguments.count}) {
    const auto begin = Time::now();
    auto drinking = co_await client.drink();
    auto items = std::move(drinking).value_or_throw();
    for (std::uint64_t i = 0; i < count; ++i) {
      rpc::Status sent = co_await items.write(item);
      if (!sent.ok()) throw rpc::Failure(sent);
    }
    auto drunk = co_await items.finish();
    if (std::move(drunk).value_or_throw().count() != count) throw std::runtime_error("items are missing");
    if (count == arguments.count)
      print("items_per_s", static_cast<double>(count) * 1e9 / nanoseconds(Time::now() - begin));
  }
}

Task<> idle(comm::Context& context, const Arguments& arguments) {
  rpc::Channel first = co_await connect(context, arguments);
  auto before = co_await first.call<&Plain::resident>();
  std::vector<rpc::Channel> channels;
  while (channels.size() < arguments.count) {
    // Measure the memory of the server, not that of this end.
    rpc::Channel one = co_await connect(context, arguments, 8);
    channels.push_back(std::move(one));
  }
  auto after = co_await first.call<&Plain::resident>();
  print("resident_mib", *after - *before);
}

}  // namespace
}  // namespace rpc_bench

int main(int count, char** words) try {
  using namespace rpc_bench;
  const Arguments arguments(count, words);
  const std::map<std::string_view, Task<> (*)(comm::Context&, const Arguments&)> programs = {
      {"serve", &serve},     {"plain-latency", &plain_latency},
      {"latency", &latency}, {"rate", &rate},
      {"bulk", &bulk},       {"sink", &sink},
      {"stream", &stream},   {"stream-up", &stream_up},
      {"idle", &idle}};
  const auto program = programs.find(arguments.program);
  if (program == programs.end())
    return std::fprintf(stderr, "rpc_bench: there is no program %s\n", words[1]), 2;
  comm::Context context = open();
  context.run(program->second(context, arguments));
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "rpc_bench: %s\n", failure.what()), 1;
}
