#include "faults/kinds.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/result_try.h"
#include "faults/values.h"
#include "faults/words.h"
#include "host/device_plan.h"
#include "wire/address_text.h"
#include "wire/cm_reasons.h"

namespace rrdma::faults {
namespace {

using Parsed = Result<void, std::string>;

// "ibv_reg_mr:ENOMEM" split into its two halves.
struct Halves {
  std::string_view first, second;
};
Halves halves_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

Parsed parse_nth(std::string_view text, Rule& rule) {
  if (text.empty()) return {};
  auto number = number_of("nth", text, 1);
  RRDMA_TRY(number);
  rule.nth = *number;
  return {};
}

// FUNCTION:HOW[:N]. Reads the function and N; returns HOW.
Result<std::string_view, std::string> parse_function(std::string_view parameter, Rule& rule) {
  const auto [function, rest] = halves_of(parameter);
  const auto [how, nth] = halves_of(rest);
  if (!is_function(function))
    return Failure{quoted(function) +
                   " is not a function that a fault can be injected into; `rrdma fault words` names them."};
  rule.function = function;
  if (auto parsed = parse_nth(nth, rule); !parsed) return Failure{parsed.error()};
  return how;
}

Parsed parse_verb(std::string_view parameter, Rule& rule) {
  const auto how = parse_function(parameter, rule);
  RRDMA_TRY(how);
  const auto error = errno_of(*how);
  if (!error) return Failure{quoted(*how) + " is no errno: write a name such as ENOMEM, or its number."};
  rule.error = *error;
  return {};
}

Parsed parse_delay(std::string_view parameter, Rule& rule) {
  auto time = time_of(parameter);
  RRDMA_TRY(time);
  rule.delay = *time;
  return {};
}

Parsed parse_slow(std::string_view parameter, Rule& rule) {
  const auto how = parse_function(parameter, rule);
  RRDMA_TRY(how);
  return parse_delay(*how, rule);
}

Parsed parse_status(std::string_view parameter, Rule& rule) {
  const auto [name, nth] = halves_of(parameter);
  const auto status = status_of(name);
  if (!status)
    return Failure{quoted(name) +
                   " is no completion status: write one such as RETRY_EXC_ERR (ibv_wc_status)."};
  rule.error = *status;
  return parse_nth(nth, rule);
}

Parsed parse_message(std::string_view parameter, Rule& rule) {
  const auto message = cm_message_of(parameter);
  if (!message)
    return Failure{quoted(parameter) +
                   " is no message of the connection manager: known are REQ, MRA, REJ, REP, RTU, DREQ, DREP, "
                   "SIDR_REQ and SIDR_REP."};
  rule.error = *message;
  return {};
}

Parsed parse_reason(std::string_view parameter, Rule& rule) {
  auto reason = number_of("reject", parameter, 1);
  if (!reason || *reason > 0xffff)
    return Failure{quoted(parameter) + " is no reason of a REJ: write a number such as 28."};
  rule.error = static_cast<int>(*reason);
  return {};
}

Parsed parse_stale(std::string_view, Rule& rule) {
  rule.error = static_cast<int>(wire::RejectReason::kStaleConnection);
  return {};
}

Parsed parse_address(std::string_view parameter, Rule& rule) {
  const auto address = wire::gid_of_text(parameter);
  if (!address) return Failure{quoted(parameter) + " is no IP address for a GID."};
  rule.address = *address;
  return {};
}

Parsed parse_speed(std::string_view parameter, Rule& rule) {
  const auto speed = host::parse_speed(parameter);
  if (!speed) return Failure{quoted(parameter) + " is no speed of a port: write one such as 25G."};
  rule.speed_mbps = *speed;
  return {};
}

Parsed parse_network(std::string_view parameter, Rule& rule) {
  auto spec = link::parse_fault_spec(parameter);
  RRDMA_TRY(spec);
  if (!spec->any())
    return Failure{std::string("net= names nothing that happens to packets: write net=drop=1%.")};
  rule.network = *spec;
  return {};
}

using Names = std::string_view;
constexpr std::array<Names, 4> kCalls = {"device", "nth", "every", "count"};
constexpr std::array<Names, 6> kCompletions = {"device", "qp", "peer", "nth", "every", "count"};
constexpr std::array<Names, 3> kQueuePairs = {"device", "qp", "peer"};
constexpr std::array<Names, 2> kQueues = {"device", "qp"};
constexpr std::array<Names, 4> kPackets = {"device", "peer", "direction", "seed"};
constexpr std::array<Names, 4> kCmCandidates = {"peer", "nth", "every", "count"};
constexpr std::array<Names, 1> kDevices = {"device"};

using enum Moment;
using enum Place;
// clang-format off
constexpr KindRow kRows[] = {
    {Kind::kVerb, "verb=", "FUNCTION:ERRNO[:N]", kCandidate, kProcess, kCalls, parse_verb, ""},
    {Kind::kSlowVerb, "slow=", "FUNCTION:TIME[:N]", kCandidate, kProcess, kCalls, parse_slow, ""},
    {Kind::kStatus, "status=", "STATUS[:N]", kCandidate, kProcess, kCompletions, parse_status, ""},
    {Kind::kQpError, "qp=error", "", kOnce, kProcess, kQueuePairs, nullptr, ""},
    {Kind::kRnr, "qp=rnr", "", kUntilCleared, kProcessPackets, kQueuePairs, nullptr,
     "queue pairs answer as if no receive were posted."},
    {Kind::kCqOverrun, "cq=overrun", "", kOnce, kProcess, kQueues, nullptr, ""},
    {Kind::kCqDelay, "cq=delay:", "TIME", kUntilCleared, kProcess, kDevices, parse_delay,
     "completions are seen later than they come."},
    {Kind::kSrqLimit, "srq=limit", "", kOnce, kProcess, kDevices, nullptr, ""},
    {Kind::kPortDown, "port=down", "", kUntilCleared, kProcessPackets, kDevices, nullptr,
     "the port is down: nothing is sent and nothing is taken."},
    {Kind::kPortUp, "port=up", "", kOnce, kProcess, kDevices, nullptr, "the port is up again."},
    {Kind::kPortSpeed, "port=speed:", "RATE", kUntilCleared, kProcess, kDevices, parse_speed,
     "the port has another speed."},
    {Kind::kDeviceFatal, "device=fatal", "", kUntilCleared, kProcessPackets, kDevices, nullptr,
     "the device failed: DEVICE_FATAL was reported and its queue pairs are in the error state."},
    {Kind::kGidLost, "gid=lost", "", kUntilCleared, kProcess, kDevices, nullptr, "the port lost its addresses."},
    {Kind::kGidAdded, "gid=add:", "ADDRESS", kUntilCleared, kProcess, kDevices, parse_address,
     "the port has another address besides its own."},
    {Kind::kGidChanged, "gid=change:", "ADDRESS", kUntilCleared, kProcess, kDevices, parse_address,
     "the port has another address in the place of the last one."},
    {Kind::kNetwork, "net=", "SPEC", kUntilCleared, kProcessPackets, kPackets, parse_network,
     "packets are disturbed from now on."},
    {Kind::kFreeze, "freeze", "", kUntilCleared, kProcessPackets, kDevices, nullptr,
     "the NIC neither sends nor takes anything."},
    {Kind::kCmDrop, "cm=drop:", "MESSAGE", kUntilCleared, kDaemon, kCmCandidates, parse_message, ""},
    {Kind::kCmReject, "cm=reject:", "REASON", kUntilCleared, kDaemon, kCmCandidates, parse_reason, ""},
    {Kind::kCmReject, "cm=timewait", "", kUntilCleared, kDaemon, kCmCandidates, parse_stale, ""},
    {Kind::kCmTimewait, "cm=timewait:", "TIME", kUntilCleared, kDaemon, kCmCandidates, parse_delay, ""},
    {Kind::kCmAddress, "cm=address", "", kOnce, kProcess, kDevices, nullptr,
     "the interface has another hardware address."},
};
// clang-format on

}  // namespace

std::span<const KindRow> kind_rows() { return kRows; }

const KindRow& row_of(Kind kind) {
  const auto* const row = std::find_if(std::begin(kRows), std::end(kRows),
                                       [&](const KindRow& each) { return each.kind == kind; });
  RRDMA_ASSERT(row != std::end(kRows));
  return *row;
}

const KindRow* row_for(std::string_view text) {
  const auto* const row = std::find_if(std::begin(kRows), std::end(kRows), [&](const KindRow& each) {
    return each.parameter.empty() ? text == each.word : text.starts_with(each.word);
  });
  return row == std::end(kRows) ? nullptr : row;
}

std::string forms_of(std::string_view group) {
  std::string forms;
  for (const KindRow& row : kRows) {
    if (!group.empty() && !row.word.starts_with(group)) continue;
    forms += (forms.empty() ? "" : ", ") + std::string(row.word) + std::string(row.parameter);
  }
  return forms;
}

}  // namespace rrdma::faults
