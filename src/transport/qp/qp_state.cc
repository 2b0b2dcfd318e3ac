#include "transport/qp/qp_state.h"

#include "base/format.h"
#include "objects/memory.h"

namespace rrdma::transport {
namespace {

// Sets of QP types. A requester sends requests and counts retries; a responder answers READs and RNR NAKs.
using Types = std::uint8_t;
constexpr Types kRcOnly = 1u << 0;
constexpr Types kUcOnly = 1u << 1;
constexpr Types kDatagram = 1u << 2;
constexpr Types kXrcSendOnly = 1u << 3;
constexpr Types kXrcReceiveOnly = 1u << 4;
constexpr Types kRequesters = kRcOnly | kXrcSendOnly;
constexpr Types kResponders = kRcOnly | kXrcReceiveOnly;
constexpr Types kReliable = kRequesters | kResponders;
constexpr Types kConnected = kReliable | kUcOnly;
constexpr Types kEvery = kConnected | kDatagram;

constexpr Types types_of(QpType type) {
  switch (type) {
    case QpType::kRc: return kRcOnly;
    case QpType::kUc: return kUcOnly;
    case QpType::kUd: return kDatagram;
    case QpType::kXrcSend: return kXrcSendOnly;
    case QpType::kXrcReceive: return kXrcReceiveOnly;
  }
  return 0;
}

// The rule of a transition is the union of its matching rows. transition_rule() adds that RESET and ERR can
// be entered from every state without attributes.
struct Row {
  QpState from;
  QpState to;
  Types types;
  std::uint32_t required;
  std::uint32_t optional;
};

using enum QpState;
constexpr std::uint32_t kMigration = kAttrAlternatePath | kAttrPathMigration;
constexpr Row kRows[] = {
    {kReset, kInit, kEvery, kAttrPKeyIndex | kAttrPort, 0},
    {kReset, kInit, kConnected, kAttrAccessFlags, 0},
    {kReset, kInit, kDatagram, kAttrQKey, 0},

    {kInit, kInit, kEvery, 0, kAttrPKeyIndex | kAttrPort},
    {kInit, kInit, kConnected, 0, kAttrAccessFlags},
    {kInit, kInit, kDatagram, 0, kAttrQKey},

    {kInit, kReadyToReceive, kEvery, 0, kAttrPKeyIndex},
    {kInit, kReadyToReceive, kConnected, kAttrPath | kAttrPathMtu | kAttrDestinationQpn | kAttrReceivePsn,
     kAttrAlternatePath | kAttrAccessFlags},
    {kInit, kReadyToReceive, kResponders, kAttrMaxDestinationReads | kAttrMinRnrTimer, 0},
    {kInit, kReadyToReceive, kDatagram, 0, kAttrQKey},

    {kReadyToReceive, kReadyToSend, kEvery, kAttrSendPsn, kAttrCurrentState},
    {kReadyToReceive, kReadyToSend, kConnected, 0, kMigration | kAttrAccessFlags},
    {kReadyToReceive, kReadyToSend, kReliable, kAttrTimeout, 0},
    {kReadyToReceive, kReadyToSend, kRequesters, kAttrRetryCount | kAttrRnrRetry | kAttrMaxReads, 0},
    {kReadyToReceive, kReadyToSend, kResponders, 0, kAttrMinRnrTimer},
    {kReadyToReceive, kReadyToSend, kDatagram, 0, kAttrQKey},

    {kReadyToSend, kReadyToSend, kEvery, 0, kAttrCurrentState},
    {kReadyToSend, kReadyToSend, kConnected, 0, kMigration | kAttrAccessFlags},
    {kReadyToSend, kReadyToSend, kResponders, 0, kAttrMinRnrTimer},
    {kReadyToSend, kReadyToSend, kDatagram, 0, kAttrQKey},

    {kReadyToSend, kDrain, kEvery, 0, kAttrDrainNotify},

    {kDrain, kDrain, kEvery, 0, kAttrPKeyIndex},
    {kDrain, kDrain, kConnected, 0, kAttrPath | kMigration | kAttrAccessFlags},
    {kDrain, kDrain, kReliable, 0, kAttrPort | kAttrTimeout},
    {kDrain, kDrain, kRequesters, 0, kAttrRetryCount | kAttrRnrRetry | kAttrMaxReads},
    {kDrain, kDrain, kResponders, 0, kAttrMaxDestinationReads | kAttrMinRnrTimer},
    {kDrain, kDrain, kDatagram, 0, kAttrQKey},

    {kDrain, kReadyToSend, kEvery, 0, kAttrCurrentState},
    {kDrain, kReadyToSend, kConnected, 0, kMigration | kAttrAccessFlags},
    {kDrain, kReadyToSend, kResponders, 0, kAttrMinRnrTimer},
    {kDrain, kReadyToSend, kDatagram, 0, kAttrQKey},

    // Only UC and UD ever enter SQE. A reliable QP may name the transition, but no attributes with it.
    {kSendError, kReadyToSend, kReliable, 0, 0},
    {kSendError, kReadyToSend, kUcOnly, 0, kAttrCurrentState | kAttrAccessFlags},
    {kSendError, kReadyToSend, kDatagram, 0, kAttrCurrentState | kAttrQKey},
};

constexpr bool is_state(QpState state) { return state <= kError; }

constexpr std::uint8_t kPort = 1;
constexpr std::uint8_t kFiveBits = 31;
constexpr std::uint8_t kThreeBits = 7;

// Returns the attributes whose values are out of range, whether or not they were given.
std::uint32_t bad_values(const QpAttributes& a) {
  std::uint32_t bad = 0;
  const auto check = [&bad](std::uint32_t bit, bool good) { bad |= good ? 0 : bit; };
  check(kAttrAccessFlags, (a.access_flags & ~std::uint32_t{objects::kAccessAll}) == 0);
  check(kAttrPKeyIndex, a.pkey_index == 0);
  check(kAttrPort, a.port == kPort);
  check(kAttrPathMtu, a.path_mtu >= kMtuCodeMin && a.path_mtu <= kMtuCodeMax);
  check(kAttrTimeout, a.timeout <= kFiveBits);
  check(kAttrRetryCount, a.retry_count <= kThreeBits);
  check(kAttrRnrRetry, a.rnr_retry <= kThreeBits);
  check(kAttrMinRnrTimer, a.min_rnr_timer <= kFiveBits);
  check(kAttrReceivePsn, a.receive_psn.value <= wire::kMask24);
  check(kAttrSendPsn, a.send_psn.value <= wire::kMask24);
  check(kAttrDestinationQpn, a.destination.value <= wire::kMask24);
  check(kAttrMaxReads, a.max_reads <= kReadsMax);
  check(kAttrMaxDestinationReads, a.max_destination_reads <= kReadsMax);
  return bad;
}

struct AttributeName {
  std::uint32_t bit;
  std::string_view name;
  std::string_view range;  // for a bad value
};
constexpr AttributeName kAttributeNames[] = {
    {kAttrState, "IBV_QP_STATE", {}},
    {kAttrCurrentState, "IBV_QP_CUR_STATE", {}},
    {kAttrDrainNotify, "IBV_QP_EN_SQD_ASYNC_NOTIFY", {}},
    {kAttrAccessFlags, "IBV_QP_ACCESS_FLAGS", "only IBV_ACCESS_* bits that this device knows"},
    {kAttrPKeyIndex, "IBV_QP_PKEY_INDEX", "0"},
    {kAttrPort, "IBV_QP_PORT", "1"},
    {kAttrQKey, "IBV_QP_QKEY", {}},
    {kAttrPath, "IBV_QP_AV", {}},
    {kAttrPathMtu, "IBV_QP_PATH_MTU", "IBV_MTU_256 (1) to IBV_MTU_4096 (5)"},
    {kAttrTimeout, "IBV_QP_TIMEOUT", "0 to 31"},
    {kAttrRetryCount, "IBV_QP_RETRY_CNT", "0 to 7"},
    {kAttrRnrRetry, "IBV_QP_RNR_RETRY", "0 to 7"},
    {kAttrReceivePsn, "IBV_QP_RQ_PSN", "24 bits"},
    {kAttrMaxReads, "IBV_QP_MAX_QP_RD_ATOMIC", "0 to the device's max_qp_init_rd_atom"},
    {kAttrAlternatePath, "IBV_QP_ALT_PATH", {}},
    {kAttrMinRnrTimer, "IBV_QP_MIN_RNR_TIMER", "0 to 31"},
    {kAttrSendPsn, "IBV_QP_SQ_PSN", "24 bits"},
    {kAttrMaxDestinationReads, "IBV_QP_MAX_DEST_RD_ATOMIC", "0 to the device's max_qp_rd_atom"},
    {kAttrPathMigration, "IBV_QP_PATH_MIG_STATE", {}},
    {kAttrCapabilities, "IBV_QP_CAP", {}},
    {kAttrDestinationQpn, "IBV_QP_DEST_QPN", "24 bits"},
    {kAttrRateLimit, "IBV_QP_RATE_LIMIT", {}},
};

std::uint32_t value_of(std::uint32_t bit, const QpAttributes& a) {
  switch (bit) {
    case kAttrAccessFlags: return a.access_flags;
    case kAttrPKeyIndex: return a.pkey_index;
    case kAttrPort: return a.port;
    case kAttrPathMtu: return a.path_mtu;
    case kAttrTimeout: return a.timeout;
    case kAttrRetryCount: return a.retry_count;
    case kAttrRnrRetry: return a.rnr_retry;
    case kAttrMinRnrTimer: return a.min_rnr_timer;
    case kAttrReceivePsn: return a.receive_psn.value;
    case kAttrSendPsn: return a.send_psn.value;
    case kAttrDestinationQpn: return a.destination.value;
    case kAttrMaxReads: return a.max_reads;
    default: return a.max_destination_reads;
  }
}

// `given`: names values and ranges too; may be null.
std::string names_of(std::uint32_t bits, const QpAttributes* given) {
  std::string text;
  const auto add = [&text](std::string_view part) {
    if (!text.empty()) text += ", ";
    text += part;
  };
  for (const auto& [bit, name, range] : kAttributeNames) {
    if ((bits & bit) == 0) continue;
    add(name);
    if (given != nullptr && !range.empty())
      text.append(formatted(" is {} (allowed: {})", value_of(bit, *given), range));
    bits &= ~bit;
  }
  for (unsigned i = 0; bits != 0; ++i, bits >>= 1) {
    if ((bits & 1) != 0) add("unknown bit " + std::to_string(i));
  }
  return text;
}

std::string states_after(QpType type, QpState from) {
  std::string text;
  for (std::uint8_t to = 0; to <= static_cast<std::uint8_t>(kError); ++to) {
    if (!transition_rule(type, from, QpState{to}).allowed) continue;
    if (!text.empty()) text += ", ";
    text += describe(QpState{to});
  }
  return text;
}

}  // namespace

std::string_view describe(QpState state) {
  switch (state) {
    case kReset: return "RESET";
    case kInit: return "INIT";
    case kReadyToReceive: return "RTR";
    case kReadyToSend: return "RTS";
    case kDrain: return "SQD";
    case kSendError: return "SQE";
    case kError: return "ERR";
  }
  return "an unknown state";
}

std::string_view describe(QpType type) {
  switch (type) {
    case QpType::kRc: return "RC";
    case QpType::kUc: return "UC";
    case QpType::kUd: return "UD";
    case QpType::kXrcSend: return "XRC_SEND";
    case QpType::kXrcReceive: return "XRC_RECV";
  }
  return "unknown";
}

TransitionRule transition_rule(QpType type, QpState from, QpState to) {
  const Types types = types_of(type);
  if (types == 0 || !is_state(from) || !is_state(to)) return {};
  if (to == kReset || to == kError) return {.allowed = true};
  TransitionRule rule;
  for (const Row& row : kRows) {
    if (row.from != from || row.to != to || (row.types & types) == 0) continue;
    rule.allowed = true;
    rule.required |= row.required;
    rule.optional |= row.optional;
  }
  return rule;
}

Result<void, TransitionError> check_transition(QpType type, QpState from, const QpAttributes& attributes,
                                               std::uint32_t mask) {
  using Reason = TransitionError::Reason;
  const QpState to = (mask & kAttrState) != 0 ? attributes.state : from;
  const auto refuse = [&](Reason reason, std::uint32_t bits) {
    return Failure{TransitionError{.reason = reason, .type = type, .from = from, .to = to, .bits = bits}};
  };
  const TransitionRule rule = transition_rule(type, from, to);
  if (!rule.allowed) return refuse(Reason::kNoSuchTransition, 0);
  if (const auto missing = rule.required & ~mask; missing != 0)
    return refuse(Reason::kMissingAttributes, missing);
  if (const auto extra = mask & ~(rule.required | rule.optional | kAttrState); extra != 0) {
    return refuse(Reason::kForbiddenAttributes, extra);
  }
  if ((mask & kAttrCurrentState) != 0 && attributes.current_state != from) {
    return refuse(Reason::kWrongCurrentState, kAttrCurrentState);
  }
  if (const auto bad = mask & bad_values(attributes); bad != 0) return refuse(Reason::kBadValue, bad);
  return {};
}

std::string explain(const TransitionError& error, const QpAttributes& given) {
  using Reason = TransitionError::Reason;
  std::string text = formatted("the {} QP cannot go from {} to {}: ", describe(error.type),
                               describe(error.from), describe(error.to));
  switch (error.reason) {
    case Reason::kNoSuchTransition: {
      const std::string next = states_after(error.type, error.from);
      text.append("there is no such transition; from ").append(describe(error.from));
      text.append(next.empty() ? " none exists" : " it may go to ").append(next).append(".");
      break;
    }
    case Reason::kMissingAttributes:
      text.append("it also needs ")
          .append(names_of(error.bits, nullptr))
          .append("; set these attributes and their mask bits.");
      break;
    case Reason::kForbiddenAttributes:
      text.append("this transition does not take ")
          .append(names_of(error.bits, nullptr))
          .append("; clear these mask bits.");
      break;
    case Reason::kWrongCurrentState:
      text.append(
          formatted("cur_qp_state is {}, but the QP is in {}; set it right or clear IBV_QP_CUR_STATE.",
                    describe(given.current_state), describe(error.from)));
      break;
    case Reason::kBadValue:
      text.append("out of range: ").append(names_of(error.bits, &given)).append(".");
      break;
  }
  return text;
}

}  // namespace rrdma::transport
