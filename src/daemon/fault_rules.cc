#include "daemon/fault_rules.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <utility>

#include "control/identity.h"
#include "daemon/log.h"

namespace rrdma::daemon {
namespace {

using faults::Kind;

constexpr std::uint16_t kConnectRequest = 0x10;
// For one user of a system daemon: root's rules and the user's own fit into one message.
constexpr std::size_t kRulesOfUserMax = control::kRulesMax / 2;
constexpr std::size_t kRulesOfAllMax = 1024;

// The times in the logs of programs are of this clock.
std::uint64_t wall_clock_ns() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

bool has_process(const std::vector<Client*>& programs, std::uint32_t pid) {
  return std::any_of(programs.begin(), programs.end(), [&](const Client* program) {
    return static_cast<std::uint32_t>(program->identity.pid) == pid;
  });
}

}  // namespace

FaultRules::FaultRules(Server& server) : server_(server), shares_(kRulesOfAllMax, ::geteuid()) {}

Subsystem::Verdict FaultRules::handle_message(Client& client, control::Received& message) {
  if (message.type() == control::MessageType::kSetFault) {
    const auto wanted = message.as<control::SetFault>();
    if (!wanted) return Verdict::kMalformed;
    set(client, message, *wanted);
    return Verdict::kHandled;
  }
  if (message.type() == control::MessageType::kClearFault) {
    const auto wanted = message.as<control::ClearFault>();
    if (!wanted) return Verdict::kMalformed;
    clear(client, message, wanted->number);
    return Verdict::kHandled;
  }
  if (message.type() == control::MessageType::kListFaults) {
    if (!message.as<control::ListFaults>()) return Verdict::kMalformed;
    list(client, message);
    return Verdict::kHandled;
  }
  // A program that starts; another subsystem handles the request itself.
  if (message.type() == control::MessageType::kRequestSlot && !rules_.empty()) (void)order(client);
  return Verdict::kOthers;
}

void FaultRules::list(Client& client, const control::Received& request) {
  control::FaultList all;
  for (const Kept& kept : rules_) {
    if (all.rules.size() < control::kRulesMax && may_see(client, kept.owner))
      all.rules.push_back({kept.rule.number, kept.injected, kept.rule.text, kept.set_ns});
  }
  (void)client.reply(request, all);
}

bool FaultRules::may_strike(const Kept& kept, const Client& program) {
  return program.hello.role == control::Role::kProgram &&
         (kept.is_roots || control::is_one_user(kept.owner, program.identity));
}

std::vector<FaultRules::Kept> FaultRules::remove(const std::function<bool(const Kept&)>& ends) {
  std::vector<Kept> removed;
  std::erase_if(rules_, [&](const Kept& kept) {
    if (!ends(kept)) return false;
    shares_.give_back(kept.account);
    removed.push_back(kept);
    return true;
  });
  return removed;
}

void FaultRules::set(Client& client, const control::Received& request, const control::SetFault& wanted) {
  auto rule = faults::parse_rule(wanted.rule);
  if (!rule) return client.fail(request, EINVAL, rule.error());
  if (!may_change(client, request)) return;
  const std::size_t own = shares_.of(client.account);
  const std::size_t own_max = server_.settings().is_system ? kRulesOfUserMax : control::kRulesMax;
  // All users share the connection manager of a system daemon.
  if (rule->is_for_daemon() && server_.settings().is_system && !acts_as_root(client))
    return client.fail(request, EPERM,
                       "the connection manager of this daemon serves all users: only root may disturb it.");
  if (own >= own_max || !shares_.take(client.payer()))
    return client.fail(request, ENOSPC,
                       "there are " + std::to_string(own) + " faults already; clear some of them first.");
  rule->number = ++last_number_;
  const Instant from = EventLoop::now() + rule->after;
  const Instant until = rule->lasts.ns == 0 ? kNever : from + rule->lasts;
  rules_.push_back({.rule = std::move(*rule),
                    .owner = client.acting,
                    .account = client.account,
                    .is_roots = acts_as_root(client),
                    .from = from,
                    .until = until,
                    .set_ns = wall_clock_ns()});
  // Other users must not fill the administrator's log.
  if (!server_.settings().is_system || rules_.back().is_roots)
    log_line("fault " + std::to_string(last_number_) + " was set: " + wanted.rule);
  order_concerned(
      client, {rules_.back()},
      [serial = request.header.serial, number = last_number_](Client* tool, std::uint32_t programs) {
        if (tool == nullptr) return;
        (void)tool->answer(serial, control::FaultWasSet{.number = number, .programs = programs});
      });
}

void FaultRules::clear(Client& client, const control::Received& request, std::uint32_t number) {
  if (!may_change(client, request)) return;
  std::vector<Kept> gone = remove([&](const Kept& kept) {
    return may_see(client, kept.owner) && (number == 0 || kept.rule.number == number);
  });
  if (gone.empty() && number != 0)
    return client.fail(
        request, ENOENT,
        "there is no fault " + std::to_string(number) + "; `rrdma fault list` shows those that are set.");
  order_concerned(client, std::move(gone), [serial = request.header.serial](Client* tool, std::uint32_t) {
    if (tool != nullptr) (void)tool->answer(serial, control::Done{});
  });
}

bool FaultRules::may_change(Client& client, const control::Received& request) {
  if (server_.rounds().has_room(client.account)) return true;
  client.fail(request, EBUSY, "this user's programs are still being told of other changes; try again.");
  return false;
}

bool FaultRules::order(Client& program) {
  control::FaultOrder order;
  bool concerned = false;
  for (const Kept& kept : rules_) {
    if (!may_strike(kept, program) || order.rules.size() >= control::kRulesMax) continue;
    order.packets_only = order.packets_only || kept.rule.disturbs_packets();
    if (kept.rule.is_for_daemon()) continue;
    order.rules.push_back({.number = kept.rule.number, .rule = kept.rule.text});
    concerned =
        concerned || kept.rule.pid == 0 || kept.rule.pid == static_cast<std::uint32_t>(program.identity.pid);
  }
  return program.notify(order) && concerned;
}

void FaultRules::order_concerned(Client& client, std::vector<Kept> changed,
                                 std::function<void(Client*, std::uint32_t)> end) {
  const auto programs = std::make_shared<std::uint32_t>(0);
  server_.rounds().begin(
      client.account, &client,
      [this, changed = std::move(changed), programs](Client& program) -> std::size_t {
        const bool is_concerned = std::any_of(changed.begin(), changed.end(),
                                              [&](const Kept& kept) { return may_strike(kept, program); });
        if (!is_concerned) return 0;
        *programs += order(program) ? 1 : 0;
        return 1;
      },
      [programs, end = std::move(end)](Client* asker) { end(asker, *programs); });
}

void FaultRules::handle_client_gone(Client& client) {
  const auto pid = static_cast<std::uint32_t>(client.identity.pid);
  // 0 is a process that this daemon cannot see; in a rule it means all processes.
  if (client.hello.role != control::Role::kProgram || pid == 0) return;
  (void)remove([&](const Kept& kept) { return kept.rule.pid == pid && may_strike(kept, client); });
}

bool FaultRules::counts(Kept& kept) {
  ++kept.seen;
  const bool counted = kept.rule.nth > 1 || kept.rule.every != 0 || kept.rule.count != 0;
  if (counted && !kept.rule.injects(kept.seen)) return false;
  ++kept.injected;
  return true;
}

void FaultRules::tell(const Kept& kept, const std::vector<Client*>& programs, const std::string& deed) {
  log_line("fault " + std::to_string(kept.rule.number) + ": " + deed);
  for (Client* program : programs)
    (void)program->notify(
        control::FaultInjected{.number = kept.rule.number, .rule = kept.rule.text, .deed = deed});
}

FaultRules::CmInjection FaultRules::inject(wire::CmAttribute attribute, const wire::Gid& remote,
                                           const std::vector<Client*>& concerned, Instant now) {
  const auto number = static_cast<std::uint16_t>(attribute);
  for (Kept& kept : rules_) {
    const bool drops = kept.rule.kind == Kind::kCmDrop && kept.rule.error == number;
    const bool rejects = kept.rule.kind == Kind::kCmReject && number == kConnectRequest;
    if ((!drops && !rejects) || now < kept.from || now >= kept.until) continue;
    if (!kept.rule.concerns_peer(remote)) continue;
    if (kept.rule.pid != 0 && !has_process(concerned, kept.rule.pid)) continue;
    if (!counts(kept)) continue;
    tell(kept, concerned,
         "a " + std::string(wire::cm_message_name(attribute)) +
             (rejects ? " was answered with a REJ of reason " + std::to_string(kept.rule.error) + "."
                      : " of the connection manager was lost."));
    return {.lost = true, .reason = static_cast<std::uint16_t>(rejects ? kept.rule.error : 0)};
  }
  return {};
}

std::optional<Duration> FaultRules::timewait(Client* program, const wire::Gid& remote, Instant now) {
  std::vector<Client*> concerned;
  if (program != nullptr) concerned.push_back(program);
  for (Kept& kept : rules_) {
    if (kept.rule.kind != Kind::kCmTimewait || now < kept.from || now >= kept.until) continue;
    if (!kept.rule.concerns_peer(remote)) continue;
    if (kept.rule.pid != 0 && !has_process(concerned, kept.rule.pid)) continue;
    if (!counts(kept)) continue;
    tell(kept, concerned,
         "a connection that ended stays in TIMEWAIT for " + link::emit_duration(kept.rule.delay) + ".");
    return kept.rule.delay;
  }
  return std::nullopt;
}

}  // namespace rrdma::daemon
