// capnp_bench PROGRAM ADDRESS [COUNT [SIZE]]: the same service with Cap'n Proto. ADDRESS is "HOST:PORT" or
// "unix:PATH".
#include <capnp/ez-rpc.h>
#include <echo.capnp.h>

#include "bench/rpc/bench.h"

namespace rpc_bench {
namespace {

class Service final : public Echo::Server {
 public:
  kj::Promise<void> say(SayContext context) override {
    context.getResults().setData(context.getParams().getData());
    return kj::READY_NOW;
  }
  kj::Promise<void> sink(SinkContext context) override {
    context.getResults().setCount(context.getParams().getData().size());
    return kj::READY_NOW;
  }
};

int serve(const Arguments& arguments) {
  capnp::EzRpcServer server(kj::heap<Service>(), arguments.address.c_str());
  kj::NEVER_DONE.wait(server.getWaitScope());
  return 0;
}

capnp::ReaderOptions large() {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = ~std::uint64_t{0};
  return options;
}

int latency(const Arguments& arguments) {
  capnp::EzRpcClient connection(arguments.address.c_str());
  Echo::Client client = connection.getMain<Echo>();
  const std::string data(arguments.size, 'x');
  Trips trips(arguments.count);
  for (std::uint64_t i = 0, warm = warm_up(arguments.count); i < arguments.count + warm; ++i) {
    const auto begin = Time::now();
    auto request = client.sayRequest();
    request.setData(kj::arrayPtr(reinterpret_cast<const kj::byte*>(data.data()), data.size()));
    request.send().wait(connection.getWaitScope());
    if (i >= warm) trips.add(Time::now() - begin);
  }
  trips.report();
  return 0;
}

kj::Promise<void> say_many(Echo::Client client, const std::string& data, std::uint64_t& left) {
  if (left == 0) return kj::READY_NOW;
  --left;
  auto request = client.sayRequest();
  request.setData(kj::arrayPtr(reinterpret_cast<const kj::byte*>(data.data()), data.size()));
  return request.send().then([client, &data, &left](auto&&) mutable { return say_many(client, data, left); });
}

int rate(const Arguments& arguments) {
  capnp::EzRpcClient connection(arguments.address.c_str());
  Echo::Client client = connection.getMain<Echo>();
  const std::string data(arguments.size, 'x');
  for (std::uint64_t count : {warm_up(arguments.count), arguments.count}) {
    std::uint64_t left = count;
    const auto begin = Time::now();
    kj::Vector<kj::Promise<void>> callers;
    for (std::size_t i = 0; i < kUnderWay; ++i) callers.add(say_many(client, data, left));
    kj::joinPromises(callers.releaseAsArray()).wait(connection.getWaitScope());
    if (count == arguments.count)
      print("calls_per_s", static_cast<double>(count) * 1e9 / nanoseconds(Time::now() - begin));
  }
  return 0;
}

int sink(const Arguments& arguments) {
  capnp::EzRpcClient connection(arguments.address.c_str(), 0, large());
  Echo::Client client = connection.getMain<Echo>();
  const std::string data(arguments.size, 'x');
  for (std::uint64_t count : {warm_up(arguments.count), arguments.count}) {
    const auto begin = Time::now();
    for (std::uint64_t i = 0; i < count; ++i) {
      auto request = client.sinkRequest();
      request.setData(kj::arrayPtr(reinterpret_cast<const kj::byte*>(data.data()), data.size()));
      request.send().wait(connection.getWaitScope());
    }
    if (count == arguments.count)
      print("bandwidth_gbs", static_cast<double>(count * arguments.size) / nanoseconds(Time::now() - begin));
  }
  return 0;
}

}  // namespace
}  // namespace rpc_bench

int main(int count, char** words) try {
  using namespace rpc_bench;
  const Arguments arguments(count, words);
  if (arguments.program == "serve") return serve(arguments);
  if (arguments.program == "latency") return latency(arguments);
  if (arguments.program == "rate") return rate(arguments);
  if (arguments.program == "sink") return sink(arguments);
  return std::fprintf(stderr, "capnp_bench: there is no program %s\n", words[1]), 2;
} catch (const kj::Exception& failure) {
  return std::fprintf(stderr, "capnp_bench: %s\n", failure.getDescription().cStr()), 1;
}
