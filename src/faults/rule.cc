#include "faults/rule.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <span>

#include "faults/words.h"
#include "host/device_plan.h"
#include "wire/cm_reasons.h"

namespace rrdma::faults {
namespace {

constexpr Duration kTimeMax = seconds(365 * 24 * 3600);

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

Result<std::uint64_t, std::string> number_of(std::string_view name, std::string_view text,
                                             std::uint64_t least) {
  const bool hexadecimal = text.starts_with("0x");
  const std::string_view digits = hexadecimal ? text.substr(2) : text;
  std::uint64_t value = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value, hexadecimal ? 16 : 10);
  if (error != std::errc() || end != last || value < least)
    return Failure{quoted(text) + " is no number for " + quoted(name) + "."};
  return value;
}

std::optional<wire::Gid> address_of(std::string_view text) {
  const std::string copy(text);
  in_addr four{};
  if (::inet_pton(AF_INET, copy.c_str(), &four) == 1) {
    std::array<std::uint8_t, 4> octets;
    std::memcpy(octets.data(), &four, 4);
    return wire::gid_of_ipv4(octets);
  }
  wire::Gid gid;
  if (::inet_pton(AF_INET6, copy.c_str(), gid.octets.data()) == 1) return gid;
  return std::nullopt;
}

// "ibv_reg_mr:ENOMEM" split into its two halves.
struct Halves {
  std::string_view first, second;
};
Halves halves_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

// "verb=ibv_reg_mr:ENOMEM:3" has its nth after the second colon.
Result<void, std::string> parse_verb(std::string_view name, std::string_view value, Rule& rule) {
  const auto [function, rest] = halves_of(value);
  const auto [how, nth] = halves_of(rest);
  if (!is_function(function))
    return Failure{quoted(function) +
                   " is not a function that a fault can be injected into; `rrdma fault words` names them."};
  rule.function = function;
  if (!nth.empty()) {
    auto number = number_of("nth", nth, 1);
    if (!number) return Failure{number.error()};
    rule.nth = *number;
  }
  if (name == "slow") {
    rule.kind = Kind::kSlowVerb;
    auto time = link::parse_duration(how);
    if (!time) return Failure{time.error()};
    rule.delay = *time;
    return {};
  }
  rule.kind = Kind::kVerb;
  const auto error = errno_of(how);
  if (!error) return Failure{quoted(how) + " is no errno: write a name such as ENOMEM, or its number."};
  rule.error = *error;
  return {};
}

Result<void, std::string> parse_status(std::string_view value, Rule& rule) {
  const auto [name, nth] = halves_of(value);
  rule.kind = Kind::kStatus;
  const auto status = status_of(name);
  if (!status)
    return Failure{quoted(name) +
                   " is no completion status: write one such as RETRY_EXC_ERR (ibv_wc_status)."};
  rule.error = *status;
  if (nth.empty()) return {};
  auto number = number_of("nth", nth, 1);
  if (!number) return Failure{number.error()};
  rule.nth = *number;
  return {};
}

Result<void, std::string> parse_cm(std::string_view value, Rule& rule) {
  const auto [what, which] = halves_of(value);
  if (what == "drop") {
    rule.kind = Kind::kCmDrop;
    const auto message = cm_message_of(which);
    if (!message)
      return Failure{
          quoted(which) +
          " is no message of the connection manager: known are REQ, MRA, REJ, REP, RTU, DREQ, DREP, "
          "SIDR_REQ and SIDR_REP."};
    rule.error = *message;
    return {};
  }
  if (what == "reject") {
    rule.kind = Kind::kCmReject;
    auto reason = number_of("reject", which, 1);
    if (!reason || *reason > 0xffff)
      return Failure{quoted(which) + " is no reason of a REJ: write a number such as 28."};
    rule.error = static_cast<int>(*reason);
    return {};
  }
  if (what == "timewait" && which.empty()) {
    rule.kind = Kind::kCmReject;
    rule.error = static_cast<int>(wire::RejectReason::kStaleConnection);
    return {};
  }
  if (what == "timewait") {
    auto time = link::parse_duration(which);
    if (!time) return Failure{time.error()};
    if (*time > kTimeMax) return Failure{quoted(which) + " is too long a time: a year is the most."};
    rule.kind = Kind::kCmTimewait;
    rule.delay = *time;
    return {};
  }
  return Failure{quoted(value) +
                 " is no fault of the connection manager: write drop:MESSAGE, reject:REASON, timewait, "
                 "timewait:TIME or address."};
}

Result<void, std::string> parse_gid(std::string_view value, Rule& rule) {
  const auto [what, which] = halves_of(value);
  if (what != "add" && what != "change")
    return Failure{quoted(value) +
                   " is no fault of a GID table: write gid=lost, gid=add:ADDRESS or gid=change:ADDRESS."};
  const auto address = address_of(which);
  if (!address) return Failure{quoted(which) + " is no IP address for a GID."};
  rule.kind = what == "add" ? Kind::kGidAdded : Kind::kGidChanged;
  rule.address = *address;
  return {};
}

Result<void, std::string> parse_port(std::string_view value, Rule& rule) {
  const auto [what, which] = halves_of(value);
  const auto speed = what == "speed" ? host::parse_speed(which) : std::nullopt;
  if (!speed)
    return Failure{quoted(value) + " is no fault of a port: write port=down, port=up or port=speed:25G."};
  rule.kind = Kind::kPortSpeed;
  rule.speed_mbps = *speed;
  return {};
}

Result<void, std::string> parse_cq(std::string_view value, Rule& rule) {
  const auto [what, time] = halves_of(value);
  if (what != "delay")
    return Failure{quoted(value) + " is no fault of a CQ: write cq=overrun or cq=delay:10ms."};
  auto delay = link::parse_duration(time);
  if (!delay) return Failure{delay.error()};
  rule.kind = Kind::kCqDelay;
  rule.delay = *delay;
  return {};
}

Result<void, std::string> parse_peers(std::string_view list, Rule& rule) {
  for (std::string_view rest = list;;) {
    const std::size_t comma = rest.find(',');
    const auto address = address_of(rest.substr(0, comma));
    if (!address) return Failure{quoted(list) + " is no IP address for 'peer'."};
    rule.peers.push_back(*address);
    if (comma == std::string_view::npos) return {};
    rest.remove_prefix(comma + 1);
  }
}

Result<void, std::string> parse_direction(std::string_view value, Rule& rule) {
  if (value == "in") rule.direction = Direction::kIn;
  if (value == "out") rule.direction = Direction::kOut;
  if (value == "both") rule.direction = Direction::kBoth;
  if (rule.direction != Direction::kUsual) return {};
  return Failure{quoted(value) + " is no direction: write in, out or both."};
}

struct Plain {
  std::string_view text;
  Kind kind;
};
constexpr std::array kPlain = {Plain{"qp=error", Kind::kQpError},   Plain{"cq=overrun", Kind::kCqOverrun},
                               Plain{"srq=limit", Kind::kSrqLimit}, Plain{"port=down", Kind::kPortDown},
                               Plain{"port=up", Kind::kPortUp},     Plain{"device=fatal", Kind::kDeviceFatal},
                               Plain{"gid=lost", Kind::kGidLost},   Plain{"freeze", Kind::kFreeze},
                               Plain{"qp=rnr", Kind::kRnr},         Plain{"cm=address", Kind::kCmAddress}};

Result<void, std::string> parse_what(std::string_view text, Rule& rule) {
  for (const Plain& plain : kPlain) {
    if (text != plain.text) continue;
    rule.kind = plain.kind;
    return {};
  }
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : text.substr(equals + 1);
  if (name == "verb" || name == "slow") return parse_verb(name, value, rule);
  if (name == "status") return parse_status(value, rule);
  if (name == "cm") return parse_cm(value, rule);
  if (name == "gid") return parse_gid(value, rule);
  if (name == "port") return parse_port(value, rule);
  if (name == "cq") return parse_cq(value, rule);
  if (name == "net") {
    rule.kind = Kind::kNetwork;
    auto spec = link::parse_fault_spec(value);
    if (!spec) return Failure{spec.error()};
    if (!spec->any())
      return Failure{std::string("net= names nothing that happens to packets: write net=drop=1%.")};
    rule.network = *spec;
    return {};
  }
  return Failure{
      quoted(text) +
      " is no fault: write verb=, slow=, status=, qp=error, qp=rnr, cq=, srq=limit, port=, device=fatal, "
      "gid=, net=, freeze or cm=."};
}

Result<void, std::string> parse_selector(std::string_view word, Rule& rule) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
  const auto keep = [&](auto& to, std::uint64_t least) -> Result<void, std::string> {
    auto number = number_of(name, value, least);
    if (!number) return Failure{number.error()};
    to = static_cast<std::remove_reference_t<decltype(to)>>(*number);
    return {};
  };
  if (name == "pid") return keep(rule.pid, 1);
  if (name == "nth") return keep(rule.nth, 1);
  if (name == "every") return keep(rule.every, 1);
  if (name == "count") return keep(rule.count, 1);
  if (name == "seed") return keep(rule.network.seed, 0);
  if (name == "qp") {
    std::uint32_t number = 0;
    auto kept = keep(number, 1);
    if (kept) rule.qpn = number;
    return kept;
  }
  if (name == "device" && !value.empty()) {
    rule.device = value;
    return {};
  }
  if (name == "direction") return parse_direction(value, rule);
  if (name == "peer") {
    return parse_peers(value, rule);
  }
  if (name == "after" || name == "for") {
    auto time = link::parse_duration(value);
    if (!time) return Failure{time.error()};
    if (*time > kTimeMax) return Failure{quoted(value) + " is too long a time: a year is the most."};
    (name == "after" ? rule.after : rule.lasts) = *time;
    return {};
  }
  return Failure{
      quoted(word) +
      " is no selector: known are pid, device, qp, peer, direction, nth, every, count, after, for and seed."};
}

// The selectors that apply to faults of this kind, besides pid, after and for, which apply to all.
std::span<const std::string_view> selectors_of(Kind kind) {
  static constexpr std::array<std::string_view, 4> kCalls = {"device", "nth", "every", "count"};
  static constexpr std::array<std::string_view, 6> kCompletions = {"device", "qp",    "peer",
                                                                   "nth",    "every", "count"};
  static constexpr std::array<std::string_view, 3> kQueuePairs = {"device", "qp", "peer"};
  static constexpr std::array<std::string_view, 2> kQueues = {"device", "qp"};
  static constexpr std::array<std::string_view, 4> kPackets = {"device", "peer", "direction", "seed"};
  static constexpr std::array<std::string_view, 4> kMessages = {"peer", "nth", "every", "count"};
  static constexpr std::array<std::string_view, 1> kDevices = {"device"};
  switch (kind) {
    case Kind::kVerb:
    case Kind::kSlowVerb: return kCalls;
    case Kind::kStatus: return kCompletions;
    case Kind::kQpError:
    case Kind::kRnr: return kQueuePairs;
    case Kind::kCqOverrun: return kQueues;
    case Kind::kNetwork: return kPackets;
    case Kind::kCmDrop:
    case Kind::kCmReject:
    case Kind::kCmTimewait: return kMessages;
    default: return kDevices;
  }
}

// Refuses a selector that does not apply to the kind: the fault would act in the wrong place.
Result<void, std::string> check_selectors(const Rule& rule, const std::vector<std::string_view>& given) {
  const std::span<const std::string_view> known = selectors_of(rule.kind);
  const std::string_view what = std::string_view(rule.text).substr(0, rule.text.find(' '));
  for (const std::string_view name : given) {
    if (name == "pid" || name == "after" || name == "for") continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string list = "pid, after, for";
    for (const std::string_view each : known) list += ", " + std::string(each);
    return Failure{quoted(name) + " means nothing to " + std::string(what) + ": it has " + list + "."};
  }
  return {};
}

}  // namespace

bool Rule::persists() const {
  return kind == Kind::kPortDown || kind == Kind::kGidLost || kind == Kind::kNetwork ||
         kind == Kind::kFreeze || kind == Kind::kCmDrop || kind == Kind::kCmReject ||
         kind == Kind::kDeviceFatal || kind >= Kind::kPortSpeed;
}

bool Rule::concerns_peer(const wire::Gid& peer) const {
  return peers.empty() || std::find(peers.begin(), peers.end(), peer) != peers.end();
}

bool Rule::injects(std::uint64_t n) const {
  if (n < nth) return false;
  if (n == nth) return true;
  if (every == 0 || (n - nth) % every != 0) return false;
  return count == 0 || (n - nth) / every < count;
}

Result<Rule, std::string> parse_rule(std::string_view text) {
  Rule rule;
  rule.text = text;
  bool first = true;
  std::vector<std::string_view> selectors;
  while (!text.empty()) {
    const std::size_t blank = text.find(' ');
    const std::string_view word = text.substr(0, blank);
    text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
    if (word.empty()) continue;
    auto parsed = first ? parse_what(word, rule) : parse_selector(word, rule);
    if (!parsed) return Failure{parsed.error()};
    if (!first) selectors.push_back(word.substr(0, word.find('=')));
    first = false;
  }
  if (first) return Failure{std::string("a fault is missing: write one such as verb=ibv_reg_mr:ENOMEM.")};
  if (auto checked = check_selectors(rule, selectors); !checked) return Failure{checked.error()};
  // `count` alone means that many in a row.
  if (rule.count > 1 && rule.every == 0) rule.every = 1;
  return rule;
}

Result<std::vector<Rule>, std::string> parse_rules(std::string_view text) {
  std::vector<Rule> rules;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(";\n");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.find_first_not_of(' ') == std::string_view::npos) continue;
    auto rule = parse_rule(line);
    if (!rule) return Failure{rule.error()};
    rule->number = static_cast<std::uint32_t>(rules.size()) + 1;
    rules.push_back(std::move(*rule));
  }
  return rules;
}

}  // namespace rrdma::faults
