// The engine alone: two of them back to back in memory, on one core. An item is a message, from post_send to
// the completions on both sides.
#include <benchmark/benchmark.h>

#include "engine_pair.h"

namespace rrdma::bench {
namespace {

void sends(benchmark::State& state) {
  EnginePair pair(1);
  for (auto _ : state) pair.burst(0, EnginePair::kDepth);
  state.SetItemsProcessed(state.iterations() * EnginePair::kDepth);
}
BENCHMARK(sends);

void sends_one_at_a_time(benchmark::State& state) {
  EnginePair pair(1);
  for (auto _ : state) pair.burst(0, 1);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(sends_one_at_a_time);

// One message on each QP in turn.
void sends_spread_over(benchmark::State& state) {
  const auto qps = static_cast<std::uint32_t>(state.range(0));
  EnginePair pair(qps);
  std::uint32_t next = 0;
  for (auto _ : state) {
    pair.spread(next, EnginePair::kDepth);
    next = (next + EnginePair::kDepth) % qps;
  }
  state.SetItemsProcessed(state.iterations() * EnginePair::kDepth);
}
BENCHMARK(sends_spread_over)->Arg(32)->Arg(1000)->Arg(10000);

void sends_on_one_of(benchmark::State& state) {
  EnginePair pair(static_cast<std::uint32_t>(state.range(0)));
  for (auto _ : state) pair.burst(7, EnginePair::kDepth);
  state.SetItemsProcessed(state.iterations() * EnginePair::kDepth);
}
BENCHMARK(sends_on_one_of)->Arg(10)->Arg(10000);

}  // namespace
}  // namespace rrdma::bench

BENCHMARK_MAIN();
