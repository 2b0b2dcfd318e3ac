// Tests the swarm itself: engines with a planted bug, one for each patch of mutants/. The swarm must find
// each bug within kSeedsMax seeds, or it would not find real ones either. Each bug runs in a child process,
// because some run into the engine's assertions, which counts as a find.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "mutants/planted_bug.h"
#include "sim/exchange.h"
#include "sim/scenario.h"

namespace rrdma::sim::mutants_test {

using transport::Mutant;
using transport::PlantedBug;

constexpr std::uint64_t kSeedsMax = 200;
constexpr unsigned kSecondsMax = 240;
constexpr int kFound = 10;
constexpr int kNotFound = 11;

// Bugs that violate no guarantee and only cost time. The bounds of loss recovery find them.
struct SlowMutant {
  PlantedBug bug;
  const char* faults;
  transport::CongestionKind congestion;
  double bar;  // relative to the cable's throughput without faults
};
constexpr SlowMutant kSlowMutants[] = {
    {PlantedBug::kTrustRepair, "drop=5%", transport::CongestionKind::kSwift, 0.6},
    {PlantedBug::kStayNarrow, "drop=1%", transport::CongestionKind::kLoss, 0.6},
};

class Mutants : public ::testing::TestWithParam<Mutant> {};

// Does not return.
void hunt(PlantedBug bug) {
  ::alarm(kSecondsMax);
  transport::planted_bug = bug;
  for (std::uint64_t seed = 1; seed <= kSeedsMax; ++seed) {
    std::printf("  seed %llu\r", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    Exchange exchange(plan_of(seed));
    if (exchange.run()) continue;
    std::printf("found by seed %llu: %s\n", static_cast<unsigned long long>(seed),
                exchange.world().violation()->c_str());
    std::fflush(stdout);
    ::_exit(kFound);
  }
  ::_exit(kNotFound);
}

double utilisation(const SlowMutant& mutant, PlantedBug bug, const char* faults) {
  transport::planted_bug = bug;
  ScenarioPlan plan;
  plan.flows = 1;
  plan.congestion = mutant.congestion;
  plan.faults = *link::parse_fault_spec(faults);
  const double result = run_scenario(plan).utilisation;
  transport::planted_bug = PlantedBug::kNone;
  return result;
}

void measure(const SlowMutant& mutant) {
  const double bar = mutant.bar * utilisation(mutant, PlantedBug::kNone, "");
  const double with = utilisation(mutant, mutant.bug, mutant.faults);
  const double without = utilisation(mutant, PlantedBug::kNone, mutant.faults);
  std::printf("%s: %.3f with the bug, %.3f without, bar %.3f\n", mutant.faults, with, without, bar);
  EXPECT_GE(without, bar);
  EXPECT_LT(with, bar);
}

TEST_P(Mutants, AreFound) {
  const Mutant& mutant = GetParam();
  ASSERT_STREQ(mutant.problem, "") << "tests/engine/swarm/mutants/" << mutant.name
                                   << ".patch does not fit the code";
  for (const SlowMutant& slow : kSlowMutants)
    if (slow.bug == mutant.bug) return measure(slow);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) hunt(mutant.bug);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) {
    std::printf("found by an assertion of the engine\n");
    return;
  }
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), kFound) << "not found in " << kSeedsMax << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Planted, Mutants, ::testing::ValuesIn(transport::kMutants),
                         [](const auto& suite) { return std::string(suite.param.name); });

// The same build without an active bug finds nothing, so the finds above are due to the bugs.
TEST(Mutants, NoneIsFoundWhereNoneIs) {
  transport::planted_bug = PlantedBug::kNone;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Exchange exchange(plan_of(seed));
    EXPECT_TRUE(exchange.run()) << "seed " << seed << ": " << *exchange.world().violation();
  }
}

}  // namespace rrdma::sim::mutants_test
