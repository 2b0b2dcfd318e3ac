#include "faults/table.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace rrdma::faults::table_test {

constexpr std::uint32_t kPid = 77;
constexpr Instant at(std::int64_t ms) { return Instant{ms * 1'000'000}; }

std::vector<Rule> rules(std::string_view text) {
  auto parsed = parse_rules(text);
  EXPECT_TRUE(parsed.ok());
  return *parsed;
}

class Witness final : public Actor {
 public:
  void handle_rules(const std::vector<Rule>& active) override { active_ = active.size(); }
  void act(const Rule& rule) override { acted.push_back(rule.kind); }
  std::size_t active_ = 0;
  std::vector<Kind> acted;
};

TEST(Table, NothingIsArmedWithoutRules) {
  Table table;
  table.set(Table::Side::kEnvironment, {}, kPid, at(0));
  EXPECT_FALSE(armed());
  EXPECT_EQ(table.next_deadline(), kNever);
}

TEST(Table, StrikesTheCallThatIsMeant) {
  Table table;
  table.set(Table::Side::kEnvironment, rules("verb=ibv_reg_mr:ENOMEM:2 device=rrdma1"), kPid, at(0));
  EXPECT_TRUE(armed(Kind::kVerb));
  EXPECT_FALSE(armed(Kind::kStatus));
  EXPECT_FALSE(table.consider_call("ibv_reg_mr", "rrdma1"));
  EXPECT_FALSE(table.consider_call("ibv_reg_mr", "rrdma0"));
  EXPECT_FALSE(table.consider_call("ibv_dereg_mr", "rrdma1"));
  const auto injection = table.consider_call("ibv_reg_mr", "rrdma1");
  ASSERT_TRUE(injection);
  EXPECT_EQ(injection->error, ENOMEM);
  EXPECT_EQ(injection->nth, 2u);
  EXPECT_FALSE(table.consider_call("ibv_reg_mr", "rrdma1"));
}

TEST(Table, GoesOnCountingWhenTheListIsSaidAgain) {
  Table table;
  const auto first = rules("verb=ibv_reg_mr:EIO:2");
  table.set(Table::Side::kDaemon, first, kPid, at(0));
  EXPECT_FALSE(table.consider_call("ibv_reg_mr", "rrdma0"));
  table.set(Table::Side::kDaemon, rules("verb=ibv_reg_mr:EIO:2;freeze"), kPid, at(1));
  EXPECT_TRUE(table.consider_call("ibv_reg_mr", "rrdma0"));
  table.set(Table::Side::kDaemon, {}, kPid, at(2));
  EXPECT_FALSE(armed());
}

TEST(Table, RulesOfOtherProcessesAreNotOurs) {
  Table table;
  table.set(Table::Side::kDaemon, rules("freeze pid=78;qp=error pid=77"), kPid, at(0));
  EXPECT_EQ(table.active().size(), 1u);
}

TEST(Table, TimesAreKept) {
  Table table;
  Witness witness;
  table.add(witness);
  table.set(Table::Side::kDaemon, rules("port=down after=10ms for=20ms"), kPid, at(100));
  EXPECT_EQ(witness.active_, 0u);
  EXPECT_EQ(table.next_deadline(), at(110));
  table.advance(at(110));
  EXPECT_EQ(witness.active_, 1u);
  EXPECT_EQ(witness.acted, std::vector{Kind::kPortDown});
  EXPECT_EQ(table.next_deadline(), at(130));
  table.advance(at(130));
  EXPECT_EQ(witness.active_, 0u);
  EXPECT_EQ(witness.acted.size(), 1u);
  table.remove(witness);
}

TEST(Table, CompletionsAreChosenByQueuePairAndPeer) {
  Table table;
  table.set(Table::Side::kDaemon, rules("status=REM_OP_ERR qp=17 peer=10.0.0.2"), kPid, at(0));
  const wire::Gid peer = wire::gid_of_ipv4({10, 0, 0, 2});
  EXPECT_FALSE(table.consider_completion("rrdma0", 18, peer));
  EXPECT_FALSE(table.consider_completion("rrdma0", 17, wire::Gid{}));
  EXPECT_TRUE(table.consider_completion("rrdma0", 17, peer));
}

}  // namespace rrdma::faults::table_test
