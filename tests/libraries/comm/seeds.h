// Shared by all swarms: random choices from a seed, the failure of a seed, and patience.
//
// No verdict depends on the time of the machine: it may be busy, or freeze its processes for minutes. Limits
// of operations that must end by themselves are far away. A watchdog counts the time in which this program
// could run.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "rrdma/comm/context.h"
#include "rrdma/comm/scope.h"
#include "rrdma/comm/task.h"
#include "tests/libraries/comm/patience.h"

namespace seeds {

using comm_test::address_of;

// The limit of an operation that must end by itself. The watchdog is earlier.
inline constexpr std::chrono::hours kFar{1};
// The patience of the watchdog.
inline const std::chrono::seconds kPatience = comm_test::patience(60);

[[noreturn]] inline void fail(std::uint64_t seed, const std::string& what) {
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(engine_() % bound); }
  bool chance(std::uint32_t percent) { return below(100) < percent; }

 private:
  std::mt19937_64 engine_;
};

// Ends when the program had this much time. A tick counts once, however late it is.
inline rrdma::comm::Task<> time_to_run(rrdma::comm::Context& context, std::chrono::seconds time) {
  constexpr std::chrono::milliseconds kTick{10};
  for (auto left = time / kTick; left > 0; --left) static_cast<void>(co_await context.sleep(kTick));
}

inline rrdma::comm::Task<> until(rrdma::comm::Context& context, const auto& done) {
  while (!done()) static_cast<void>(co_await context.sleep(std::chrono::milliseconds(1)));
}

// Runs until done(). Returns false if that takes more than kPatience.
bool run_until(rrdma::comm::Context& context, const auto& done) {
  const auto first =
      context.run(rrdma::comm::when_any(until(context, done), time_to_run(context, kPatience)));
  return first.index() == 0;
}

}  // namespace seeds
