#include "faults/kinds.h"

#include <gtest/gtest.h>

#include <set>

namespace rrdma::faults::kinds_test {

// All words of the rows for which a question has the answer yes.
template <typename Question>
std::set<std::string_view> words_with(Question question) {
  std::set<std::string_view> words;
  for (const KindRow& row : kind_rows()) {
    Rule rule;
    rule.kind = row.kind;
    if (question(rule)) words.insert(row.word);
  }
  return words;
}

TEST(Kinds, EveryKindHasARow) {
  for (int kind = 0; kind <= static_cast<int>(Kind::kCmTimewait); ++kind)
    EXPECT_EQ(static_cast<int>(row_of(static_cast<Kind>(kind)).kind), kind);
}

// Which faults wait for a call, act once, or stay decides how long a rule lives.
TEST(Kinds, TimesAndPlaces) {
  using Words = std::set<std::string_view>;
  EXPECT_EQ(words_with([](const Rule& rule) { return !rule.acts(); }), (Words{"verb=", "slow=", "status="}));
  EXPECT_EQ(words_with([](const Rule& rule) { return rule.acts() && !rule.persists(); }),
            (Words{"qp=error", "cq=overrun", "srq=limit", "port=up", "cm=address"}));
  EXPECT_EQ(words_with([](const Rule& rule) { return rule.is_for_daemon(); }),
            (Words{"cm=drop:", "cm=reject:", "cm=timewait", "cm=timewait:"}));
  EXPECT_EQ(words_with([](const Rule& rule) { return rule.disturbs_packets(); }),
            (Words{"net=", "freeze", "port=down", "device=fatal", "qp=rnr"}));
}

TEST(Kinds, AWordIsFoundWhole) {
  EXPECT_EQ(row_for("cm=timewait")->kind, Kind::kCmReject);
  EXPECT_EQ(row_for("cm=timewait:1s")->kind, Kind::kCmTimewait);
  EXPECT_EQ(row_for("freezer"), nullptr);
  EXPECT_EQ(row_for("port="), nullptr);
  EXPECT_EQ(forms_of("port="), "port=down, port=up, port=speed:RATE");
  EXPECT_EQ(forms_of("nothing="), "");
}

}  // namespace rrdma::faults::kinds_test
