#include "host/explain_end.h"

#include <gtest/gtest.h>

namespace rrdma::host {
namespace {

Explained said(Severity severity, std::string call, std::string sentence, std::uint32_t times = 1,
               ExplainFacts::Kind kind = ExplainFacts::kNone) {
  Explained made;
  made.severity = severity;
  made.call = std::move(call);
  made.sentence = std::move(sentence);
  made.times = times;
  made.facts.kind = kind;
  return made;
}

std::string line_of(std::vector<Explained> sentences) {
  ExplainedProcess process;
  process.pid = 12;
  process.sentences = std::move(sentences);
  return end_line(process);
}

TEST(ExplainEnd, ARefusedCallWithItsRemedy) {
  EXPECT_EQ(line_of({said(Severity::kInfo, "ibv_modify_qp",
                          "sgid_index 7 is empty on rrdma0; use 1 (10.9.0.1).", 2)}),
            "2 calls refused: ibv_modify_qp: sgid_index 7 is empty on rrdma0; use 1 (10.9.0.1). See `rrdma "
            "explain --pid 12`.");
}

TEST(ExplainEnd, AFailureBeforeRefusedCallsAndOnlyItsFirstClause) {
  EXPECT_EQ(
      line_of({said(Severity::kError, "ibv_post_send", "SEND failed: no answer; PSN 7. Check it.", 1,
                    ExplainFacts::kSend),
               said(Severity::kInfo, "ibv_create_cq", "too many.")}),
      "1 request failed, 1 call refused: ibv_post_send: SEND failed: no answer. See `rrdma explain --pid "
      "12`.");
}

TEST(ExplainEnd, TheFirstFailureIsTheReasonForLaterOnes) {
  EXPECT_NE(line_of({said(Severity::kError, "ibv_post_send", "later.", 1, ExplainFacts::kSend),
                     said(Severity::kError, "ibv_post_send", "first.", 1, ExplainFacts::kSend)})
                .find("2 requests failed: ibv_post_send: first. See"),
            std::string::npos);
}

TEST(ExplainEnd, NothingAboutProbesAndInjectedFaults) {
  EXPECT_EQ(
      line_of({said(Severity::kError, "fault 1", "on purpose."), said(Severity::kDebug, "ibv_x", "no.")}),
      "");
  EXPECT_EQ(line_of({}), "");
}

}  // namespace
}  // namespace rrdma::host
