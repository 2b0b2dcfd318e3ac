// Runs the model for every plan and every point of the end. RRDMA_ENDINGS_SEEDS sets the number of seeds.
#include "model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

namespace rrdma::endings::model_test {

std::uint64_t seeds() {
  const char* text = std::getenv("RRDMA_ENDINGS_SEEDS");
  return text == nullptr ? 20 : std::strtoull(text, nullptr, 0);
}

std::string text_of(const ModelPlan& plan) {
  std::string text = "seed " + std::to_string(plan.seed) + (plan.ring ? ", ring" : ", udp") +
                     (plan.events ? ", events" : ", polling") + (plan.capture ? ", captured, " : ", ") +
                     std::to_string(plan.rounds) + " rounds, " + std::to_string(plan.lanes) + " lanes";
  if (plan.kill_at) return text + ", killed at step " + std::to_string(*plan.kill_at);
  constexpr const char* kEnds[] = {", at once", ", lanes end", ", in a handler", ", never"};
  return text + kEnds[static_cast<std::size_t>(plan.end)] + ", after " + std::to_string(plan.after);
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
  std::uint64_t runs = 0;
  std::map<std::pair<bool, End>, std::uint64_t> held;  // by link and end
  for_each_plan([&](ModelPlan plan) {
    for (const End end : {End::kAtOnce, End::kLanes, End::kHandler, End::kNever}) {
      plan.end = end;
      for (plan.after = 0; plan.after <= (end == End::kNever ? 0 : kAfterMax); ++plan.after) {
        const ModelOutcome outcome = run_model(plan);
        ASSERT_EQ(outcome.broken, "") << text_of(plan);
        ASSERT_FALSE(outcome.held_an_ack && plan.events) << text_of(plan);
        ++runs;
        // Only a program that has replied to many messages in a row delays its ACKs.
        held[{plan.ring, end}] += outcome.held_an_ack && plan.rounds > 0 ? 1 : 0;
      }
    }
  });
  std::printf("%llu runs\n", static_cast<unsigned long long>(runs));
  for (const bool ring : {false, true}) {
    std::printf("%s: %llu programs died at once with an ACK that waited, %llu in a handler\n",
                ring ? "ring" : "udp", static_cast<unsigned long long>(held[{ring, End::kAtOnce}]),
                static_cast<unsigned long long>(held[{ring, End::kHandler}]));
    EXPECT_GT((held[{ring, End::kAtOnce}]), 0u);
    EXPECT_GT((held[{ring, End::kHandler}]), 0u);
    EXPECT_EQ((held[{ring, End::kLanes}]), 0u);
  }
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

}  // namespace rrdma::endings::model_test
