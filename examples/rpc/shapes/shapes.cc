// The four shapes of calls, from both sides. `shapes serve ADDRESS [CLIENTS]` serves, `shapes call
// ADDRESS` makes one call of each shape. With the CMakeLists.txt beside it, this is a complete project of
// its own.
#include <rrdma/rpc/rpc.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

using namespace rrdma;
using namespace std::chrono_literals;

struct Reading {
  std::uint32_t hour;
  std::int32_t degrees;
};

// A weather station.
class Station {
 public:
  // Unary: an argument, a result.
  rpc::Result<std::int32_t> at(const std::uint32_t& hour) {
    const auto found = readings_.find(hour);
    if (found == readings_.end())
      return {rpc::Code::kNotFound, "nothing was read at " + std::to_string(hour)};
    return found->second;
  }
  // A stream of results.
  comm::Task<rpc::Status> since(const std::uint32_t& hour, rpc::Writer<Reading>& out) {
    for (auto reading = readings_.lower_bound(hour); reading != readings_.end(); ++reading) {
      rpc::Status written = co_await out.write({reading->first, reading->second});
      if (!written.ok()) co_return written;
    }
    co_return rpc::Status();
  }
  // A stream of arguments.
  comm::Task<rpc::Result<std::uint32_t>> record(rpc::Reader<Reading>& in) {
    std::uint32_t count = 0;
    while (auto reading = co_await in.read()) {
      readings_[reading->hour] = reading->degrees;
      ++count;
    }
    if (!in.status().ok()) co_return in.status();
    co_return count;
  }
  // Both: for each reading the mean of all so far.
  comm::Task<rpc::Status> means(rpc::Reader<Reading>& in, rpc::Writer<double>& out) {
    double sum = 0;
    for (unsigned count = 1;; ++count) {
      auto reading = co_await in.read();
      if (!reading) co_return in.status();
      sum += reading->degrees;
      rpc::Status written = co_await out.write(sum / count);
      if (!written.ok()) co_return written;
    }
  }

 private:
  std::map<std::uint32_t, std::int32_t> readings_;
};

comm::Task<> call(comm::Context& context, const char* address) {
  rpc::Channel channel = co_await comm::or_throw(rpc::connect(context, address, {}, 5s));

  // A stream of arguments: write, then finish() for the result.
  auto recording = co_await comm::or_throw(channel.call<&Station::record>(5s));
  for (std::uint32_t hour = 6; hour < 9; ++hour) {
    const Reading reading{hour, 10 + static_cast<std::int32_t>(hour)};
    rpc::Status written = co_await recording.write(reading);
    if (!written.ok()) break;  // finish() has the reason
  }
  const std::uint32_t count = co_await comm::or_throw(recording.finish());
  std::printf("%u recorded\n", count);

  // Unary: the options of a call are its deadline, or more (rpc::CallOptions).
  auto degrees = co_await channel.call<&Station::at>(7U, 1s);
  std::printf("at 7: %d\n", degrees.value_or_throw());
  auto missing = co_await channel.call<&Station::at>(3U, 1s);
  if (!missing.ok()) std::printf("at 3: %s\n", missing.error().what().c_str());

  // A stream of results: read until there is nothing, then ask why.
  auto readings = co_await comm::or_throw(channel.call<&Station::since>(7U, 5s));
  while (auto reading = co_await readings.read()) std::printf("at %u: %d\n", reading->hour, reading->degrees);
  rpc::Status ended = co_await readings.finish();
  if (!ended.ok()) ended.raise();

  // Both: writes and reads in any order.
  auto means = co_await comm::or_throw(channel.call<&Station::means>(5s));
  for (const std::int32_t degree : {10, 20, 60}) {
    const Reading reading{0, degree};
    rpc::Status written = co_await means.write(reading);
    if (!written.ok()) break;
    auto mean = co_await means.read();
    if (!mean) break;
    std::printf("mean %.0f\n", *mean);
  }
  ended = co_await means.finish();
  if (!ended.ok()) ended.raise();
}

comm::Task<> serve(comm::Context& context, const char* address, unsigned long clients) {
  Station station;
  rpc::Server server(context);
  server.add<&Station::at>(station);
  server.add<&Station::since>(station);
  server.add<&Station::record>(station);
  server.add<&Station::means>(station);
  const rpc::Status listening = server.listen(address);
  if (!listening.ok()) listening.raise();
  std::printf("listening at %s\n", std::string(server.address()).c_str());
  std::fflush(stdout);
  // Serve until that many clients have come and gone; 0: forever.
  while (clients == 0 || server.counters().connections < clients || server.connections() != 0)
    static_cast<void>(co_await context.sleep(20ms));
}

int main(int count, char** words) try {
  const std::string_view role = count > 2 ? words[1] : "";
  if (role != "serve" && role != "call")
    return std::fprintf(stderr, "usage: shapes serve ADDRESS [CLIENTS] | shapes call ADDRESS\n"), 2;
  comm::Context context = comm::Context::open().value_or_throw();
  context.run(role == "serve" ? serve(context, words[2], count > 3 ? std::stoul(words[3]) : 0)
                              : call(context, words[2]));
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
