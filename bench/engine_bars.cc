// Speed bars of the engine (make bench-check): 5 million 64-byte SENDs per second on one core, and the cost
// of 10,000 connected QPs. Each figure is the best of many short rounds. engine_memory.cc checks the memory.
#include <time.h>

#include <algorithm>
#include <cstdio>

#include "engine_pair.h"

namespace rrdma::bench {
namespace {

constexpr double kMessageNsMax = 200;  // 5 million per second
constexpr double kSpreadRatioMax = 1.5;
constexpr double kOneOfManyRatioMax = 1.1;
constexpr std::uint32_t kManyQps = 10'000;
constexpr std::uint32_t kTurnMessages = 16;
constexpr int kRounds = 300;
constexpr int kAttempts = 6;

// CPU time of this thread, so that other load on the machine does not count.
double cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// Nanoseconds for each message.
template <typename Step>
double best_ns(int rounds, int steps, int messages, Step step) {
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const double start = cpu_ns();
    for (int i = 0; i < steps; ++i) step();
    best = std::min(best, (cpu_ns() - start) / (steps * messages));
  }
  return best;
}

bool verdict(const char* what, double value, const char* unit, double bar) {
  std::printf("%-58s %9.2f %-5s (at most %.2f)%s\n", what, value, unit, bar, value <= bar ? "" : "  MISSED");
  return value <= bar;
}

double burst_ns(EnginePair& pair, std::uint32_t qp, std::uint32_t messages) {
  return best_ns(kRounds, 20, static_cast<int>(messages), [&] { pair.burst(qp, messages); });
}

// A round visits all QPs, so that none of their state is in the cache by chance.
double rotating_ns(EnginePair& pair, std::uint32_t messages) {
  std::uint32_t next = 0;
  return best_ns(6, kManyQps, static_cast<int>(messages), [&] {
    pair.burst(next, messages);
    next = (next + 1) % kManyQps;
  });
}

bool speeds() {
  EnginePair one(1);
  EnginePair many(kManyQps);
  const double one_ns = burst_ns(one, 0, EnginePair::kDepth);
  std::printf("%-58s %9.2f M/s\n", "64-octet SENDs on one QP", 1e3 / one_ns);
  bool good = verdict("64-octet SEND on one QP", one_ns, "ns", kMessageNsMax);
  good &= verdict("one of 10,000 QPs, against one", burst_ns(many, 7, EnginePair::kDepth) / one_ns, "x",
                  kOneOfManyRatioMax);
  const double rotating = rotating_ns(many, kTurnMessages) / burst_ns(one, 0, kTurnMessages);
  good &= verdict("10,000 QPs in turn, 16 messages each, against one", rotating, "x", kSpreadRatioMax);
  // With one message at a time this measures memory latency: the state of both QPs is never in the cache.
  const double single = rotating_ns(many, 1) / burst_ns(one, 0, 1);
  std::printf("%-58s %9.2f x\n", "10,000 QPs in turn, 1 message each, against one", single);
  return good;
}

}  // namespace
}  // namespace rrdma::bench

int main() {
  using namespace rrdma::bench;
  bool fast = false;
  for (int attempt = 0; attempt < kAttempts && !fast; ++attempt) fast = speeds();
  return fast ? 0 : 1;
}
