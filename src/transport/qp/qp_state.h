// The state table of a QP: which transitions exist, and which attributes each requires or allows, for
// each QP type. Pure data and one check; the engine carries transitions out.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "transport/qp/attributes.h"

namespace rrdma::transport {

struct TransitionError {
  enum class Reason : std::uint8_t {
    kNoSuchTransition,
    kMissingAttributes,    // `bits` are required and were not given
    kForbiddenAttributes,  // `bits` were given and are not allowed in this transition
    kWrongCurrentState,    // cur_qp_state does not name the QP's state
    kBadValue,             // `bits` name the attribute whose value is out of range
  };
  Reason reason = Reason::kNoSuchTransition;
  QpType type = QpType::kRc;
  QpState from = QpState::kReset;
  QpState to = QpState::kReset;
  std::uint32_t bits = 0;
};

// One sentence for people: names the transition and the attributes by their IBV_QP_* names.
std::string explain(const TransitionError& error);

struct TransitionRule {
  bool allowed = false;
  std::uint32_t required = 0;  // besides kAttrState
  std::uint32_t optional = 0;
};
TransitionRule transition_rule(QpType type, QpState from, QpState to);

// Checks that `mask` and the values fit the transition from the QP's present state. Without kAttrState the
// state stays (RTS to RTS, INIT to INIT, ...).
Result<void, TransitionError> check_transition(QpType type, QpState from, const QpAttributes& attributes,
                                               std::uint32_t mask);

}  // namespace rrdma::transport
