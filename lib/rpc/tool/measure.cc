#include "lib/rpc/tool/measure.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace rrdma::rpc::tool {
namespace {

constexpr int kBarColumns = 40;

std::string bar(double share) {
  std::string text;
  const int full = static_cast<int>(share * kBarColumns + 0.5);
  for (int i = 0; i < kBarColumns; ++i) text += i < full ? "█" : "·";
  return text;
}

std::string shown(std::chrono::nanoseconds duration) {
  const auto value = static_cast<double>(duration.count());
  std::array<char, 32> text{};
  if (value < 1e3) {
    std::snprintf(text.data(), text.size(), "%.0f ns", value);
  } else if (value < 1e6) {
    std::snprintf(text.data(), text.size(), "%.2f µs", value / 1e3);
  } else {
    std::snprintf(text.data(), text.size(), "%.2f ms", value / 1e6);
  }
  return text.data();
}

class Progress {
 public:
  explicit Progress(std::uint64_t all) : all_(all), shown_(::isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }
  void step() {
    const std::uint64_t percent = ++done_ * 100 / all_;
    if (!shown_ || percent == percent_) return;
    percent_ = percent;
    std::fprintf(stderr, "\r%s %3llu %%", bar(static_cast<double>(percent) / 100).c_str(),
                 static_cast<unsigned long long>(percent));
  }

 private:
  std::uint64_t all_;
  std::uint64_t done_ = 0;
  std::uint64_t percent_ = ~std::uint64_t{0};
  bool shown_;
};

comm::Task<> call_many(rpc::Channel& channel, const rpc::Method& method, const std::string& argument,
                       std::uint64_t& left, Progress& progress, rpc::Latencies& latencies) {
  while (left != 0) {
    --left;
    const auto begin = comm::Clock::now();
    auto result = co_await channel.unary<std::string>(method, argument);
    if (!result.ok()) throw rpc::Failure(result.status());
    latencies.record(comm::Clock::now() - begin);
    progress.step();
  }
}

}  // namespace

comm::Task<> measure(rpc::Channel& channel, rpc::Method method, std::string argument, Load load,
                     rpc::Latencies& latencies) {
  Progress progress(load.calls);
  std::uint64_t left = load.calls;
  comm::Scope callers;
  for (unsigned i = 0; i < load.under_way; ++i)
    callers.spawn(call_many(channel, method, argument, left, progress, latencies));
  co_await callers.join();
}

std::string report(const rpc::Latencies& latencies, std::chrono::nanoseconds took) {
  std::string text;
  std::array<char, 96> line{};
  std::snprintf(line.data(), line.size(), "%llu calls, %.0f a second\n",
                static_cast<unsigned long long>(latencies.count()),
                static_cast<double>(latencies.count()) * 1e9 / static_cast<double>(took.count()));
  text += line.data();
  for (const double share : {0.5, 0.9, 0.99, 0.999, 1.0}) {
    std::snprintf(line.data(), line.size(), "  p%-5g ", share * 100);
    text += line.data() + shown(latencies.percentile(share)) + "\n";
  }
  // From the first to the last percentile, one row for each quarter of an octave.
  auto bound = std::max<std::chrono::nanoseconds>(latencies.percentile(0.01), std::chrono::nanoseconds(16));
  std::vector<std::pair<std::chrono::nanoseconds, std::uint64_t>> rows;
  std::uint64_t before = 0;
  while (before < latencies.count() && rows.size() < 40) {
    const std::uint64_t within = latencies.within(bound);
    rows.emplace_back(bound, within - before);
    before = within;
    bound += bound / 4;
  }
  std::uint64_t most = 1;
  for (const auto& row : rows) most = std::max(most, row.second);
  for (const auto& [end, count] : rows) {
    std::snprintf(line.data(), line.size(), "%12s ", ("≤ " + shown(end)).c_str());
    text += line.data() + bar(static_cast<double>(count) / static_cast<double>(most)) + " " +
            std::to_string(count) + "\n";
  }
  return text;
}

}  // namespace rrdma::rpc::tool
