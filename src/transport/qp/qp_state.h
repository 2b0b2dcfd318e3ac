// The state table of a QP: which transitions exist, and which attributes each one requires or allows, for
// each QP type. Data and one check; the engine performs the transitions.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "transport/qp/attributes.h"

namespace rrdma::transport {

struct TransitionError {
  enum class Reason : std::uint8_t {
    kNoSuchTransition,
    kMissingAttributes,    // `bits` are required but missing
    kForbiddenAttributes,  // `bits` are given but not allowed in this transition
    kWrongCurrentState,    // cur_qp_state differs from the QP's state
    kBadValue,             // `bits` name attributes whose values are out of range
  };
  Reason reason = Reason::kNoSuchTransition;
  QpType type = QpType::kRc;
  QpState from = QpState::kReset;
  QpState to = QpState::kReset;
  std::uint32_t bits = 0;
};

// One sentence for the user. It names the transition, the attributes by their IBV_QP_* names, and wrong
// values.
std::string explain(const TransitionError& error, const QpAttributes& given);

struct TransitionRule {
  bool allowed = false;
  std::uint32_t required = 0;  // besides kAttrState
  std::uint32_t optional = 0;
};
TransitionRule transition_rule(QpType type, QpState from, QpState to);

// Checks that `mask` and the values fit the transition from the QP's present state. Without kAttrState the
// state does not change (RTS to RTS, INIT to INIT, ...).
Result<void, TransitionError> check_transition(QpType type, QpState from, const QpAttributes& attributes,
                                               std::uint32_t mask);

}  // namespace rrdma::transport
