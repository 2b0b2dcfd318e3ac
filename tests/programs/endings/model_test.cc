// Runs the model for every plan and every point of the end. RRDMA_ENDINGS_SEEDS sets the number of seeds.
#include "model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace rrdma::endings {
namespace {

std::uint64_t seeds() {
  const char* text = std::getenv("RRDMA_ENDINGS_SEEDS");
  return text == nullptr ? 20 : std::strtoull(text, nullptr, 0);
}

std::string text_of(const ModelPlan& plan) {
  std::string text = "seed " + std::to_string(plan.seed) + (plan.ring ? ", ring" : ", udp") +
                     (plan.events ? ", events" : ", polling") + (plan.capture ? ", captured, " : ", ") +
                     std::to_string(plan.rounds) + " rounds, " + std::to_string(plan.lanes) + " lanes";
  if (plan.kill_at) return text + ", killed at step " + std::to_string(*plan.kill_at);
  return text + (plan.end == End::kLanes ? ", lanes end" : ", at once") + ", after " +
         std::to_string(plan.after);
}

// Every combination except the way to end.
template <typename Visit>
void for_each_plan(Visit visit) {
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    for (const bool ring : {false, true}) {
      for (const bool events : {false, true}) {
        for (const bool capture : {false, true}) {
          for (const unsigned rounds : {0u, 20u}) {
            for (const unsigned lanes : {1u, 2u})
              visit(ModelPlan{.seed = seed,
                              .ring = ring,
                              .events = events,
                              .capture = capture,
                              .rounds = rounds,
                              .lanes = lanes});
          }
        }
      }
    }
  }
}

TEST(Endings, SeenMessagesAreAcknowledged) {
  constexpr std::uint64_t kAfterMax = 12;
  std::uint64_t runs = 0, held = 0;
  for_each_plan([&](ModelPlan plan) {
    for (const End end : {End::kAtOnce, End::kLanes}) {
      plan.end = end;
      for (plan.after = 0; plan.after <= kAfterMax; ++plan.after) {
        const ModelOutcome outcome = run_model(plan);
        ASSERT_EQ(outcome.broken, "") << text_of(plan);
        ++runs;
        held += outcome.held_an_ack ? 1 : 0;
      }
    }
  });
  std::printf("%llu runs, %llu of them died with an acknowledgement that waited\n",
              static_cast<unsigned long long>(runs), static_cast<unsigned long long>(held));
  EXPECT_GT(held, 0u);
}

TEST(Endings, AKillAtAnyStepBreaksNoPromise) {
  std::uint64_t runs = 0;
  for_each_plan([&](ModelPlan plan) {
    if (plan.seed > std::max<std::uint64_t>(seeds() / 10, 1)) return;
    ModelPlan whole = plan;
    const std::uint64_t steps = run_model(whole).steps;
    for (std::uint64_t at = 1; at <= steps; ++at) {
      plan.kill_at = at;
      const ModelOutcome outcome = run_model(plan);
      ASSERT_EQ(outcome.broken, "") << text_of(plan);
      ++runs;
    }
  });
  std::printf("%llu runs\n", static_cast<unsigned long long>(runs));
}

}  // namespace
}  // namespace rrdma::endings
