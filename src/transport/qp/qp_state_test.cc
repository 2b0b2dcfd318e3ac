// Compares the whole state table with a second, independent statement of it: one line for each QP type and
// transition, with one letter for each attribute. Any transition that is not listed must not exist.
#include "transport/qp/qp_state.h"

#include <gtest/gtest.h>

#include <string_view>

#include "objects/memory.h"

namespace rrdma::transport::qp_state_test {

using Reason = TransitionError::Reason;

constexpr QpType kTypes[] = {QpType::kRc, QpType::kUc, QpType::kUd, QpType::kXrcSend, QpType::kXrcReceive};
constexpr int kStates = 7;

// Letters: c current state, n drain notification, a access flags, k pkey index, p port, q qkey, v path,
// m path MTU, t timeout, r retry count, R RNR retry, e receive PSN, x max reads, l alternate path,
// y min RNR timer, s send PSN, X max destination reads, g path migration, d destination QPN.
constexpr std::string_view kLetters = "cnakpqvmtrRexlysXg?d";  // from bit 1 upwards

std::uint32_t bits_of(std::string_view letters) {
  std::uint32_t bits = 0;
  for (const char letter : letters) bits |= 2u << kLetters.find(letter);
  return bits;
}

struct Expected {
  std::string_view type, from, to, required, optional;
};
constexpr Expected kExpected[] = {
    {"RC", "RESET", "INIT", "kpa", ""},
    {"RC", "INIT", "INIT", "", "kpa"},
    {"RC", "INIT", "RTR", "vmdeXy", "lak"},
    {"RC", "RTR", "RTS", "trRsx", "clayg"},
    {"RC", "RTS", "RTS", "", "calgy"},
    {"RC", "RTS", "SQD", "", "n"},
    {"RC", "SQD", "RTS", "", "clayg"},
    {"RC", "SQD", "SQD", "", "pvtrRxXlakyg"},
    {"RC", "SQE", "RTS", "", ""},

    {"UC", "RESET", "INIT", "kpa", ""},
    {"UC", "INIT", "INIT", "", "kpa"},
    {"UC", "INIT", "RTR", "vmde", "lak"},
    {"UC", "RTR", "RTS", "s", "clag"},
    {"UC", "RTS", "RTS", "", "calg"},
    {"UC", "RTS", "SQD", "", "n"},
    {"UC", "SQD", "RTS", "", "clag"},
    {"UC", "SQD", "SQD", "", "vlakg"},
    {"UC", "SQE", "RTS", "", "ca"},

    {"UD", "RESET", "INIT", "kpq", ""},
    {"UD", "INIT", "INIT", "", "kpq"},
    {"UD", "INIT", "RTR", "", "kq"},
    {"UD", "RTR", "RTS", "s", "cq"},
    {"UD", "RTS", "RTS", "", "cq"},
    {"UD", "RTS", "SQD", "", "n"},
    {"UD", "SQD", "RTS", "", "cq"},
    {"UD", "SQD", "SQD", "", "kq"},
    {"UD", "SQE", "RTS", "", "cq"},

    {"XRC_SEND", "RESET", "INIT", "kpa", ""},
    {"XRC_SEND", "INIT", "INIT", "", "kpa"},
    {"XRC_SEND", "INIT", "RTR", "vmde", "lak"},
    {"XRC_SEND", "RTR", "RTS", "trRsx", "clag"},
    {"XRC_SEND", "RTS", "RTS", "", "calg"},
    {"XRC_SEND", "RTS", "SQD", "", "n"},
    {"XRC_SEND", "SQD", "RTS", "", "clag"},
    {"XRC_SEND", "SQD", "SQD", "", "pvtrRxlakg"},
    {"XRC_SEND", "SQE", "RTS", "", ""},

    {"XRC_RECV", "RESET", "INIT", "kpa", ""},
    {"XRC_RECV", "INIT", "INIT", "", "kpa"},
    {"XRC_RECV", "INIT", "RTR", "vmdeXy", "lak"},
    {"XRC_RECV", "RTR", "RTS", "ts", "clayg"},
    {"XRC_RECV", "RTS", "RTS", "", "calgy"},
    {"XRC_RECV", "RTS", "SQD", "", "n"},
    {"XRC_RECV", "SQD", "RTS", "", "clayg"},
    {"XRC_RECV", "SQD", "SQD", "", "pvtXlakyg"},
    {"XRC_RECV", "SQE", "RTS", "", ""},
};

TransitionRule expected_rule(QpType type, QpState from, QpState to) {
  if (to == QpState::kReset || to == QpState::kError) return {.allowed = true};
  for (const auto& row : kExpected) {
    if (row.type == describe(type) && row.from == describe(from) && row.to == describe(to)) {
      return {.allowed = true, .required = bits_of(row.required), .optional = bits_of(row.optional)};
    }
  }
  return {};
}

template <typename Body>
void for_each_transition(Body body) {
  for (const QpType type : kTypes) {
    for (int from = 0; from < kStates; ++from) {
      for (int to = 0; to < kStates; ++to) {
        const auto f = static_cast<QpState>(from), t = static_cast<QpState>(to);
        SCOPED_TRACE(testing::Message() << describe(type) << " " << describe(f) << " -> " << describe(t));
        body(type, f, t);
      }
    }
  }
}

QpAttributes attributes_for(QpState from, QpState to) {
  QpAttributes attributes;
  attributes.state = to;
  attributes.current_state = from;
  return attributes;
}

TEST(QpState, TheTableIsTheExpectedOneInEveryCell) {
  int allowed = 0;
  for_each_transition([&](QpType type, QpState from, QpState to) {
    const auto rule = transition_rule(type, from, to);
    const auto expected = expected_rule(type, from, to);
    EXPECT_EQ(rule.allowed, expected.allowed);
    EXPECT_EQ(rule.required, expected.required);
    EXPECT_EQ(rule.optional, expected.optional);
    EXPECT_EQ(rule.required & rule.optional, 0u);
    allowed += rule.allowed;
  });
  EXPECT_EQ(allowed, 5 * (2 * kStates + 9));
}

// Adds each mask bit to, or removes it from, the smallest valid mask, and expects exactly the right verdict.
TEST(QpState, EveryBitOfEveryMaskIsJudged) {
  for_each_transition([](QpType type, QpState from, QpState to) {
    const auto rule = expected_rule(type, from, to);
    const auto attributes = attributes_for(from, to);
    if (!rule.allowed) {
      const auto verdict = check_transition(type, from, attributes, kAttrState);
      ASSERT_FALSE(verdict.ok());
      EXPECT_EQ(verdict.error().reason, Reason::kNoSuchTransition);
      return;
    }
    const std::uint32_t least = rule.required | kAttrState;
    ASSERT_TRUE(check_transition(type, from, attributes, least).ok());
    ASSERT_TRUE(check_transition(type, from, attributes, least | rule.optional).ok());
    for (unsigned i = 1; i < 32; ++i) {
      const std::uint32_t bit = 1u << i;
      const auto verdict = check_transition(type, from, attributes, least ^ bit);
      EXPECT_EQ(verdict.ok(), (rule.optional & bit) != 0) << "bit " << i;
      if (verdict.ok()) continue;
      EXPECT_EQ(verdict.error().reason,
                (rule.required & bit) != 0 ? Reason::kMissingAttributes : Reason::kForbiddenAttributes);
      EXPECT_EQ(verdict.error().bits, bit);
      EXPECT_EQ(verdict.error().type, type);
      EXPECT_EQ(verdict.error().from, from);
      EXPECT_EQ(verdict.error().to, to);
    }
  });
}

TEST(QpState, WithoutTheStateBitTheStateStays) {
  for (const QpType type : kTypes) {
    for (int s = 0; s < kStates; ++s) {
      const auto state = static_cast<QpState>(s);
      QpAttributes attributes = attributes_for(state, QpState::kInit);  // the state must be ignored
      const bool stays = expected_rule(type, state, state).allowed;
      EXPECT_EQ(check_transition(type, state, attributes, 0).ok(), stays)
          << describe(type) << describe(state);
    }
  }
}

TEST(QpState, AStateOrTypeFromOutsideTheEnumerationHasNoTransition) {
  QpAttributes attributes;
  attributes.state = static_cast<QpState>(7);
  EXPECT_EQ(check_transition(QpType::kRc, QpState::kInit, attributes, kAttrState).error().reason,
            Reason::kNoSuchTransition);
  EXPECT_FALSE(transition_rule(static_cast<QpType>(8), QpState::kReset, QpState::kInit).allowed);
  EXPECT_FALSE(transition_rule(static_cast<QpType>(8), QpState::kInit, QpState::kError).allowed);
  EXPECT_FALSE(transition_rule(QpType::kRc, static_cast<QpState>(9), QpState::kReset).allowed);
  EXPECT_NE(explain(check_transition(QpType::kRc, QpState::kInit, attributes, kAttrState).error(), attributes)
                .find("unknown state"),
            std::string::npos);
}

TEST(QpState, TheCurrentStateMustBeNamedRight) {
  QpAttributes attributes = attributes_for(QpState::kReadyToSend, QpState::kReadyToSend);
  const std::uint32_t mask = kAttrState | kAttrCurrentState;
  EXPECT_TRUE(check_transition(QpType::kUd, QpState::kReadyToSend, attributes, mask).ok());
  attributes.current_state = QpState::kSendError;
  const auto verdict = check_transition(QpType::kUd, QpState::kReadyToSend, attributes, mask);
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.error().reason, Reason::kWrongCurrentState);
  EXPECT_TRUE(check_transition(QpType::kUd, QpState::kReadyToSend, attributes, kAttrState).ok());
}

struct Limit {
  std::uint32_t bit;
  QpState from, to;
  void (*set)(QpAttributes&, std::uint32_t);
  std::uint32_t least, most;
};

TEST(QpState, ValuesOutOfRangeAreRefusedWhenTheyAreGiven) {
  using enum QpState;
  const Limit limits[] = {
      {kAttrPathMtu, kInit, kReadyToReceive,
       [](QpAttributes& a, std::uint32_t v) { a.path_mtu = std::uint8_t(v); }, 1, 5},
      {kAttrMinRnrTimer, kInit, kReadyToReceive,
       [](QpAttributes& a, std::uint32_t v) { a.min_rnr_timer = std::uint8_t(v); }, 0, 31},
      {kAttrMaxDestinationReads, kInit, kReadyToReceive,
       [](QpAttributes& a, std::uint32_t v) { a.max_destination_reads = std::uint8_t(v); }, 0, kReadsMax},
      {kAttrReceivePsn, kInit, kReadyToReceive,
       [](QpAttributes& a, std::uint32_t v) { a.receive_psn.value = v; }, 0, 0xffffff},
      {kAttrDestinationQpn, kInit, kReadyToReceive,
       [](QpAttributes& a, std::uint32_t v) { a.destination.value = v; }, 0, 0xffffff},
      {kAttrTimeout, kReadyToReceive, kReadyToSend,
       [](QpAttributes& a, std::uint32_t v) { a.timeout = std::uint8_t(v); }, 0, 31},
      {kAttrRetryCount, kReadyToReceive, kReadyToSend,
       [](QpAttributes& a, std::uint32_t v) { a.retry_count = std::uint8_t(v); }, 0, 7},
      {kAttrRnrRetry, kReadyToReceive, kReadyToSend,
       [](QpAttributes& a, std::uint32_t v) { a.rnr_retry = std::uint8_t(v); }, 0, 7},
      {kAttrMaxReads, kReadyToReceive, kReadyToSend,
       [](QpAttributes& a, std::uint32_t v) { a.max_reads = std::uint8_t(v); }, 0, kReadsMax},
      {kAttrSendPsn, kReadyToReceive, kReadyToSend,
       [](QpAttributes& a, std::uint32_t v) { a.send_psn.value = v; }, 0, 0xffffff},
      {kAttrPort, kReset, kInit, [](QpAttributes& a, std::uint32_t v) { a.port = std::uint8_t(v); }, 1, 1},
      {kAttrPKeyIndex, kReset, kInit,
       [](QpAttributes& a, std::uint32_t v) { a.pkey_index = std::uint16_t(v); }, 0, 0},
  };
  for (const auto& limit : limits) {
    const std::uint32_t mask = expected_rule(QpType::kRc, limit.from, limit.to).required | kAttrState;
    const auto verdict_for = [&](std::uint32_t value) {
      QpAttributes attributes = attributes_for(limit.from, limit.to);
      limit.set(attributes, value);
      return check_transition(QpType::kRc, limit.from, attributes, mask);
    };
    EXPECT_TRUE(verdict_for(limit.least).ok()) << limit.bit;
    EXPECT_TRUE(verdict_for(limit.most).ok()) << limit.bit;
    const auto above = verdict_for(limit.most + 1);
    ASSERT_FALSE(above.ok()) << limit.bit;
    EXPECT_EQ(above.error().reason, Reason::kBadValue);
    EXPECT_EQ(above.error().bits, limit.bit);
    if (limit.least > 0) {
      EXPECT_FALSE(verdict_for(limit.least - 1).ok()) << limit.bit;
    }
  }
  // Attributes that are not in the mask are ignored.
  QpAttributes attributes = attributes_for(kReadyToSend, kReadyToSend);
  attributes.path_mtu = 77;
  attributes.port = 0;
  EXPECT_TRUE(check_transition(QpType::kRc, kReadyToSend, attributes, kAttrState).ok());
}

TEST(QpState, UnknownAccessFlagsAreRefused) {
  QpAttributes attributes = attributes_for(QpState::kReadyToSend, QpState::kReadyToSend);
  attributes.access_flags = objects::kAccessAll;
  EXPECT_TRUE(check_transition(QpType::kRc, QpState::kReadyToSend, attributes, kAttrAccessFlags).ok());
  attributes.access_flags |= 1u << 15;
  const auto verdict = check_transition(QpType::kRc, QpState::kReadyToSend, attributes, kAttrAccessFlags);
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.error().bits, std::uint32_t{kAttrAccessFlags});
}

TEST(QpState, ExplanationsNameTheTransitionAndTheAttributes) {
  const QpAttributes to_rtr = attributes_for(QpState::kInit, QpState::kReadyToReceive);
  const auto missing =
      check_transition(QpType::kUc, QpState::kInit, to_rtr, kAttrState | kAttrPath | kAttrPathMtu);
  EXPECT_EQ(explain(missing.error(), to_rtr),
            "the UC QP cannot go from INIT to RTR: it also needs IBV_QP_RQ_PSN, "
            "IBV_QP_DEST_QPN; "
            "set these attributes and their mask bits.");

  const auto forbidden =
      check_transition(QpType::kUd, QpState::kInit, to_rtr, kAttrState | kAttrPath | 1u << 30);
  EXPECT_EQ(explain(forbidden.error(), to_rtr),
            "the UD QP cannot go from INIT to RTR: this transition does not take IBV_QP_AV, "
            "unknown bit 30; clear these mask bits.");

  const QpAttributes to_rts = attributes_for(QpState::kReset, QpState::kReadyToSend);
  const auto none = check_transition(QpType::kRc, QpState::kReset, to_rts, kAttrState);
  EXPECT_EQ(explain(none.error(), to_rts),
            "the RC QP cannot go from RESET to RTS: there is no such transition; from "
            "RESET it may "
            "go to RESET, INIT, ERR.");

  QpAttributes to_init = attributes_for(QpState::kReset, QpState::kInit);
  to_init.port = 2;
  const auto bad = check_transition(QpType::kUd, QpState::kReset, to_init,
                                    kAttrState | kAttrPort | kAttrPKeyIndex | kAttrQKey);
  EXPECT_EQ(explain(bad.error(), to_init),
            "the UD QP cannot go from RESET to INIT: out of range: IBV_QP_PORT is 2 (allowed: 1).");
  for (unsigned i = 0; i < 32; ++i) {  // every bit has a name
    const std::string text = explain({.reason = Reason::kForbiddenAttributes, .bits = 1u << i}, {});
    EXPECT_TRUE(text.find("IBV_QP_") != std::string::npos || text.find("unknown bit") != std::string::npos)
        << text;
  }
}

}  // namespace rrdma::transport::qp_state_test
