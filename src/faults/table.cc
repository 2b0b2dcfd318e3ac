#include "faults/table.h"

#include <algorithm>

#include "base/format.h"
#include "host/explain.h"

namespace rrdma::faults {

Table& Table::instance() {
  static auto* const table = new Table;
  return *table;
}

void Table::set(Side side, const std::vector<Rule>& rules, std::uint32_t pid, Instant now) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<Entry> kept;
    for (const Entry& entry : entries_) {
      if (entry.side != side) kept.push_back(entry);
    }
    for (const Rule& rule : rules) {
      if (rule.pid != 0 && rule.pid != pid) continue;
      const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return entry.side == side && entry.rule.number == rule.number && entry.rule.text == rule.text;
      });
      if (known != entries_.end()) {
        kept.push_back(*known);
        continue;
      }
      const Instant from = now + rule.after;
      kept.push_back({.side = side,
                      .rule = rule,
                      .from = from,
                      .until = rule.lasts.ns == 0 ? kNever : from + rule.lasts});
    }
    entries_ = std::move(kept);
  }
  advance(now);
}

void Table::advance(Instant now) {
  std::vector<Rule> begun;
  {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
      if (!entry.begun && entry.from <= now) {
        entry.begun = true;
        if (entry.rule.acts()) begun.push_back(entry.rule);
      }
      if (entry.until <= now) entry.over = true;
    }
  }
  publish(std::move(begun));
}

Instant Table::next_deadline() const {
  const std::lock_guard lock(mutex_);
  Instant earliest = kNever;
  for (const Entry& entry : entries_) {
    if (!entry.begun) earliest = std::min(earliest, entry.from);
    if (!entry.over) earliest = std::min(earliest, entry.until);
  }
  return earliest;
}

std::vector<Rule> Table::active_locked() const {
  std::vector<Rule> active;
  for (const Entry& entry : entries_) {
    if (entry.begun && !entry.over) active.push_back(entry.rule);
  }
  return active;
}

std::vector<Rule> Table::active() const {
  const std::lock_guard lock(mutex_);
  return active_locked();
}

std::vector<Rule> Table::rules() const {
  const std::lock_guard lock(mutex_);
  std::vector<Rule> all;
  for (const Entry& entry : entries_) all.push_back(entry.rule);
  return all;
}

void Table::publish(std::vector<Rule> begun) {
  const std::lock_guard telling(telling_);
  std::vector<Rule> active;
  {
    const std::lock_guard lock(mutex_);
    active = active_locked();
    std::uint32_t kinds = 0;
    for (const Rule& rule : active) kinds |= 1u << static_cast<unsigned>(rule.kind);
    armed_kinds.store(kinds, std::memory_order_relaxed);
  }
  for (Actor* actor : actors_) {
    actor->handle_rules(active);
    for (const Rule& rule : begun) actor->act(rule);
  }
}

// Rules that act at one moment do not apply to actors that were added later.
void Table::add(Actor& actor) {
  const std::lock_guard telling(telling_);
  actors_.push_back(&actor);
  if (const std::vector<Rule> now = active(); !now.empty()) actor.handle_rules(now);
}

void Table::remove(Actor& actor) {
  const std::lock_guard telling(telling_);
  std::erase(actors_, &actor);
}

template <typename Matches>
std::optional<Injection> Table::consider(Matches matches) {
  const std::lock_guard lock(mutex_);
  std::optional<Injection> injection;
  for (Entry& entry : entries_) {
    if (!entry.begun || entry.over || !matches(entry.rule)) continue;
    // Every rule counts, even after one has acted.
    ++entry.seen;
    if (injection || !entry.rule.injects(entry.seen)) continue;
    injection = Injection{.number = entry.rule.number,
                          .text = entry.rule.text,
                          .nth = entry.seen,
                          .error = entry.rule.error,
                          .delay = entry.rule.delay};
  }
  return injection;
}

std::optional<Injection> Table::consider_call(std::string_view function, std::string_view device) {
  return consider([&](const Rule& rule) {
    return (rule.kind == Kind::kVerb || rule.kind == Kind::kSlowVerb) && rule.function == function &&
           (rule.device.empty() || rule.device == device);
  });
}

std::optional<Injection> Table::consider_completion(std::string_view device, std::uint32_t qpn,
                                                    const wire::Gid& peer) {
  return consider([&](const Rule& rule) {
    return rule.kind == Kind::kStatus && (rule.device.empty() || rule.device == device) &&
           (!rule.qpn || *rule.qpn == qpn) && rule.concerns_peer(peer);
  });
}

void Table::set_witness(Witness witness) {
  const std::lock_guard lock(witness_mutex_);
  witness_ = std::move(witness);
}

void Table::tell_witness(const std::string& line) {
  const std::lock_guard lock(witness_mutex_);
  if (witness_) witness_(line);
}

std::optional<Duration> Table::completion_delay(std::string_view device) const {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.begun && !entry.over && entry.rule.kind == Kind::kCqDelay &&
        (entry.rule.device.empty() || entry.rule.device == device))
      return entry.rule.delay;
  }
  return std::nullopt;
}

void explain_injection(std::uint32_t number, std::string_view text, std::string_view sentence) {
  const std::string name = formatted("fault {}", number),
                    said = formatted("on purpose ({}): {}", text, sentence);
  host::explain_call(host::Severity::kError, name, said);
  Table::instance().tell_witness(name + ": " + said);
}

}  // namespace rrdma::faults
