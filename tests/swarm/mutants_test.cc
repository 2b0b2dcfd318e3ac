// Tests the swarm itself: engines with a planted bug. The swarm must find each bug within kSeedsMax seeds, or it
// would not find real ones either. Each bug runs in a child process, because some run into the engine's assertions,
// which counts as a find.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "sim/exchange.h"
#include "sim/scenario.h"
#include "transport/planted_bug.h"

namespace rrdma::sim {
namespace {

using transport::PlantedBug;

constexpr std::uint64_t kSeedsMax = 200;
constexpr unsigned kSecondsMax = 240;
constexpr int kFound = 10;
constexpr int kNotFound = 11;

struct Mutant {
  PlantedBug bug;
  const char* name;
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

TEST_P(Mutants, AreFound) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) hunt(GetParam().bug);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) {
    std::printf("found by an assertion of the engine\n");
    return;
  }
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), kFound) << "not found in " << kSeedsMax << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Planted, Mutants,
                         ::testing::Values(Mutant{PlantedBug::kSkipDuplicateCheck, "SkipDuplicateCheck"},
                                           Mutant{PlantedBug::kAckBeforePlacing, "AckBeforePlacing"},
                                           Mutant{PlantedBug::kWrongPsnCompare, "WrongPsnCompare"},
                                           Mutant{PlantedBug::kForgetFence, "ForgetFence"},
                                           Mutant{PlantedBug::kExecuteAtomicAgain, "ExecuteAtomicAgain"},
                                           Mutant{PlantedBug::kLoseCompletion, "LoseCompletion"},
                                           Mutant{PlantedBug::kIgnoreRegionBounds, "IgnoreRegionBounds"},
                                           Mutant{PlantedBug::kExecuteEarlyTwice, "ExecuteEarlyTwice"},
                                           Mutant{PlantedBug::kBitmapOffByOne, "BitmapOffByOne"},
                                           Mutant{PlantedBug::kForgetEarly, "ForgetEarly"},
                                           Mutant{PlantedBug::kPlaceOverBoundary, "PlaceOverBoundary"},
                                           Mutant{PlantedBug::kDoneWhenArrived, "DoneWhenArrived"},
                                           Mutant{PlantedBug::kRepairNext, "RepairNext"},
                                           Mutant{PlantedBug::kExecuteOverGap, "ExecuteOverGap"},
                                           Mutant{PlantedBug::kProbeSpendsRetry, "ProbeSpendsRetry"},
                                           Mutant{PlantedBug::kCountResponseTwice, "CountResponseTwice"}),
                         [](const auto& suite) { return std::string(suite.param.name); });

// Some bugs violate no guarantee and only cost time. The bounds of loss recovery find them.
struct SlowMutant {
  PlantedBug bug;
  const char* name;
  const char* faults;
  transport::CongestionKind congestion;
  double bar;  // relative to the cable's throughput without faults
};

class SlowMutants : public ::testing::TestWithParam<SlowMutant> {};

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

TEST_P(SlowMutants, AreFound) {
  const SlowMutant& mutant = GetParam();
  const double bar = mutant.bar * utilisation(mutant, PlantedBug::kNone, "");
  const double with = utilisation(mutant, mutant.bug, mutant.faults);
  const double without = utilisation(mutant, PlantedBug::kNone, mutant.faults);
  std::printf("%s: %.3f with the bug, %.3f without, bar %.3f\n", mutant.faults, with, without, bar);
  EXPECT_GE(without, bar);
  EXPECT_LT(with, bar);
}

INSTANTIATE_TEST_SUITE_P(Planted, SlowMutants,
                         ::testing::Values(SlowMutant{PlantedBug::kTrustRepair, "TrustRepair", "drop=5%",
                                                      transport::CongestionKind::kSwift, 0.6},
                                           SlowMutant{PlantedBug::kStayNarrow, "StayNarrow", "drop=1%",
                                                      transport::CongestionKind::kLoss, 0.6}),
                         [](const auto& suite) { return std::string(suite.param.name); });

// The same build without an active bug finds nothing, so the finds above are due to the bugs.
TEST(Mutants, NoneIsFoundWhereNoneIs) {
  transport::planted_bug = PlantedBug::kNone;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Exchange exchange(plan_of(seed));
    EXPECT_TRUE(exchange.run()) << "seed " << seed << ": " << *exchange.world().violation();
  }
}

}  // namespace
}  // namespace rrdma::sim
