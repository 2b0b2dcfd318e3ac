#include "nic/process/process_faults.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <utility>

#include "base/raw_syscall.h"
#include "host/clock.h"
#include "host/explain.h"

namespace rrdma::nic {
namespace {

using faults::Kind;
using faults::Rule;

constexpr std::uint32_t kAlways = 1'000'000;  // ppm

bool concerns(const Rule& rule, const host::Device& device) {
  return rule.device.empty() || rule.device == device.identity().name;
}

bool blocks(const Rule& rule) {
  return rule.kind == Kind::kPortDown || rule.kind == Kind::kDeviceFatal || rule.kind == Kind::kFreeze ||
         (rule.kind == Kind::kNetwork && rule.network.drop_ppm == kAlways);
}

// A device that this process has not opened has no packets here; an unused address represents it.
std::vector<wire::Gid> addresses_of(const Rule& rule, const DeviceList& devices) {
  std::vector<wire::Gid> addresses;
  if (rule.device.empty()) return addresses;
  for (const auto& device : devices) {
    if (!concerns(rule, *device)) continue;
    for (const host::GidEntry& entry : device->gids()) addresses.push_back(entry.gid);
  }
  if (addresses.empty()) addresses.emplace_back();
  return addresses;
}

}  // namespace

host::Imposed imposed_on(const host::Device& device, const std::vector<Rule>& active) {
  host::Imposed imposed;
  for (const Rule& rule : active) {
    if (!concerns(rule, device)) continue;
    imposed.port_down = imposed.port_down || rule.kind == Kind::kPortDown;
    imposed.gids_lost = imposed.gids_lost || rule.kind == Kind::kGidLost;
    imposed.removed = imposed.removed || rule.kind == Kind::kDeviceFatal;
    if (rule.kind == Kind::kCmAddress) ++imposed.addresses_changed;
    if (rule.kind == Kind::kPortSpeed) imposed.speed_mbps = rule.speed_mbps;
    if (rule.kind == Kind::kGidAdded) imposed.added.push_back(rule.address);
    if (rule.kind == Kind::kGidChanged) imposed.changed = rule.address;
    // A later rule overrides earlier ones.
    if (rule.kind == Kind::kPortUp) imposed.port_down = imposed.removed = imposed.gids_lost = false;
  }
  return imposed;
}

std::vector<link::FaultScope> scopes_of(const DeviceList& devices, const std::vector<Rule>& active) {
  std::vector<link::FaultScope> scopes;
  const auto add = [&](const Rule& rule, bool blocked) {
    scopes.push_back({.number = rule.number,
                      .locals = addresses_of(rule, devices),
                      .remotes = rule.peers,
                      .blocked = blocked,
                      .outbound = rule.direction != faults::Direction::kIn,
                      .inbound = rule.direction == faults::Direction::kUsual
                                     ? blocked
                                     : rule.direction != faults::Direction::kOut,
                      .spec = rule.network});
  };
  for (auto rule = active.begin(); rule != active.end(); ++rule) {
    const bool lifted =
        rule->kind == Kind::kPortDown && std::any_of(rule + 1, active.end(), [&](const Rule& later) {
          return later.kind == Kind::kPortUp && (later.device.empty() || later.device == rule->device);
        });
    if (blocks(*rule) && !lifted) add(*rule, true);
  }
  // A later rule overrides earlier ones.
  for (auto rule = active.rbegin(); rule != active.rend(); ++rule) {
    if (rule->kind == Kind::kNetwork && !blocks(*rule)) add(*rule, false);
  }
  return scopes;
}

ProcessFaults::ProcessFaults(std::function<void()> changed, faults::Table::Witness injected)
    : changed_(std::move(changed)),
      timer_(lifted(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK))) {
  faults::Table::instance().set_witness(std::move(injected));
  faults::Table::instance().add(*this);
  set_timer();
}

ProcessFaults::~ProcessFaults() {
  faults::Table::instance().remove(*this);
  faults::Table::instance().set_witness({});
}

void ProcessFaults::handle() {
  std::uint64_t times = 0;
  if (!timer_ || raw::read(timer_.get(), &times, sizeof times) <= 0) return;
  faults::Table::instance().advance(host::now());
  set_timer();
}

// Skips rules of a later version, with a message.
void ProcessFaults::follow(const control::FaultOrder& order) {
  std::vector<Rule> rules;
  for (const control::NumberedRule& numbered : order.rules) {
    auto rule = faults::parse_rule(numbered.rule);
    if (!rule) {
      host::explain(host::Severity::kError, "rrdma fault", rule.error());
      continue;
    }
    rule->number = numbered.number;
    rules.push_back(std::move(*rule));
  }
  faults::Table::instance().set(faults::Table::Side::kDaemon, rules,
                                static_cast<std::uint32_t>(raw::getpid()), host::now());
  set_timer();
}

void ProcessFaults::set_timer() {
  if (!timer_) return;
  const Instant deadline = faults::Table::instance().next_deadline();
  itimerspec setting{};
  if (deadline != kNever) {
    const std::int64_t left = std::max<std::int64_t>(1, (deadline - host::now()).ns);
    setting.it_value = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
  }
  (void)::timerfd_settime(timer_.get(), 0, &setting, nullptr);
}

void ProcessFaults::handle_rules(const std::vector<Rule>&) { changed_(); }

void ProcessFaults::act(const Rule& rule) {
  if (const std::string_view deed = rule.deed(); !deed.empty())
    faults::explain_injection(rule.number, rule.text, deed);
}

}  // namespace rrdma::nic
