#include "faults/rule.h"

#include <algorithm>
#include <span>

#include "base/result_try.h"
#include "faults/kinds.h"
#include "faults/values.h"
#include "wire/address_text.h"

namespace rrdma::faults {
namespace {

Result<void, std::string> parse_peers(std::string_view list, Rule& rule) {
  for (std::string_view rest = list;;) {
    const std::size_t comma = rest.find(',');
    const auto address = wire::gid_of_text(rest.substr(0, comma));
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

Result<void, std::string> parse_what(std::string_view text, Rule& rule) {
  if (const KindRow* row = row_for(text)) {
    rule.kind = row->kind;
    return row->parse == nullptr ? Result<void, std::string>()
                                 : row->parse(text.substr(row->word.size()), rule);
  }
  const std::size_t equals = text.find('=');
  const std::string_view group = equals == std::string_view::npos ? text : text.substr(0, equals + 1);
  const std::string near = forms_of(group);
  return Failure{quoted(text) + " is no fault: write " + (near.empty() ? forms_of("") : near) + "."};
}

Result<void, std::string> parse_selector(std::string_view word, Rule& rule) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
  const auto keep = [&](auto& to, std::uint64_t least) -> Result<void, std::string> {
    auto number = number_of(name, value, least);
    RRDMA_TRY(number);
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
  if (name == "peer") return parse_peers(value, rule);
  if (name == "after" || name == "for") {
    auto time = time_of(value);
    RRDMA_TRY(time);
    (name == "after" ? rule.after : rule.lasts) = *time;
    return {};
  }
  return Failure{
      quoted(word) +
      " is no selector: known are pid, device, qp, peer, direction, nth, every, count, after, for and seed."};
}

// Refuses a selector that does not apply to the kind: the fault would act in the wrong place.
Result<void, std::string> check_selectors(const Rule& rule, const std::vector<std::string_view>& given) {
  const std::span<const std::string_view> known = row_of(rule.kind).selectors;
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

bool Rule::acts() const { return row_of(kind).moment != Moment::kCandidate; }

bool Rule::persists() const { return row_of(kind).moment == Moment::kUntilCleared; }

bool Rule::is_for_daemon() const { return row_of(kind).place == Place::kDaemon; }

bool Rule::disturbs_packets() const { return row_of(kind).place == Place::kProcessPackets; }

std::string_view Rule::deed() const { return row_of(kind).deed; }

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
    RRDMA_TRY(parsed);
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
    RRDMA_TRY(rule);
    rule->number = static_cast<std::uint32_t>(rules.size()) + 1;
    rules.push_back(std::move(*rule));
  }
  return rules;
}

}  // namespace rrdma::faults
