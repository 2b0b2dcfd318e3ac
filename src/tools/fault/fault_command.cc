// `rrdma fault`: injects faults into running programs, and into programs that start while the daemon holds
// the rules. faults/rule.h defines the syntax; `set` also takes selectors as options.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/format.h"
#include "control/client/daemon_client.h"
#include "control/fault_messages.h"
#include "faults/kinds.h"
#include "faults/rule.h"
#include "faults/words.h"
#include "host/explain_log.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/fault/fault_plan.h"
#include "tools/interrupt.h"
#include "tools/terminal.h"
#include "tools/text_layout.h"

namespace rrdma::tools {
namespace {

constexpr const char* kName = "rrdma fault";
constexpr auto kOnce = control::DaemonClient::Repeat::kOnce;
constexpr auto kLookAgain = std::chrono::milliseconds(100);

struct FaultOptions {
  std::vector<std::string> words;
  std::map<std::string, std::string> selectors;
  std::string plan;
  std::string number;
  bool json = false;
};

using Daemon = std::unique_ptr<control::DaemonClient>;

bool names_a_process(const std::string& line) {
  const auto rule = faults::parse_rule(line);
  return rule && rule->pid != 0;
}

// Returns null after reporting the reason.
Daemon connect(bool may_start = false) {
  auto daemon =
      control::DaemonClient::connect_or_start({.role = control::Role::kTool, .may_start = may_start});
  if (daemon) return std::move(*daemon);
  if (daemon.error().error == ECONNREFUSED) {
    complain(kName, "no program uses RRDMA in this network namespace now",
             "to have faults from the beginning of a program: rrdma run --faults");
  } else {
    complain(kName, daemon.error().sentence, "");
  }
  return nullptr;
}

// Counts injections by rule: processes log each one as "fault 3" (faults::explain_injection). Logs of ended
// programs count too, but not those of an earlier fault with the same number. `set_at`: wall clock time by
// rule.
std::map<std::uint32_t, std::uint64_t> count_injections(
    const std::map<std::uint32_t, std::uint64_t>& set_at) {
  std::map<std::uint32_t, std::uint64_t> injections;
  const std::uint64_t here = host::net_namespace_of_this_process();
  for (const std::uint32_t pid : host::explained_pids()) {
    const host::ExplainedProcess of = host::read_explained(pid);
    if (of.net_namespace != here) continue;
    for (const host::Explained& said : of.sentences) {
      unsigned number = 0;
      if (std::sscanf(said.call.c_str(), "fault %u", &number) != 1) continue;
      const auto set = set_at.find(number);
      if (set != set_at.end() && static_cast<std::uint64_t>(said.first_ns) >= set->second)
        injections[number] += said.times;
    }
  }
  return injections;
}

int check_line(const std::string& line) {
  if (auto rule = faults::parse_rule(line); !rule)
    return complain(kName, rule.error(), "'rrdma fault set --help' shows the words");
  if (line.size() > control::kRuleOctetsMax) return complain(kName, "the fault has too many words", "");
  return kExitSuccess;
}

// How often the daemon has granted a program its first resources: also those count that came and went.
std::uint64_t programs_so_far(control::DaemonClient& daemon) {
  const auto status = daemon.status();
  if (!status) return 0;
  for (const control::NamedCounter& counter : status->counters) {
    if (counter.name == "slots.granted") return counter.value;
  }
  return 0;
}

// Keeps the daemon, and with it the rules, until a program has come. False: interrupted.
bool wait_for_a_program(control::DaemonClient& daemon, std::uint64_t programs_before) {
  watch_interrupts();
  std::cerr << "no program uses RRDMA in this network namespace yet; waiting for one, Ctrl-C gives up\n";
  while (!interrupted()) {
    if (programs_so_far(daemon) > programs_before) return true;
    std::this_thread::sleep_for(kLookAgain);
  }
  return false;
}

int set_line(control::DaemonClient& daemon, const std::string& line, std::uint32_t& programs) {
  const auto set = daemon.request<control::FaultWasSet>(control::SetFault{.rule = line}, kOnce);
  if (!set) return complain(kName, set.error().sentence, "");
  std::cout << formatted("fault {} set: {} ({} {})\n", set->number, line, set->programs,
                         set->programs == 1 ? "program" : "programs")
            << std::flush;
  programs = set->programs;
  return kExitSuccess;
}

int run_set(const FaultOptions& options) {
  std::vector<std::string> lines;
  if (!options.plan.empty()) {
    auto plan = read_fault_plan(options.plan);
    if (!plan) return complain(kName, plan.error(), "");
    lines = std::move(*plan);
  } else {
    std::string line;
    for (const std::string& word : options.words) line += (line.empty() ? "" : " ") + word;
    for (const auto& [name, value] : options.selectors) line += " " + name + "=" + value;
    lines.push_back(std::move(line));
  }
  // Report a wrong rule even if no program is running.
  for (const std::string& line : lines) {
    if (const int status = check_line(line); status != kExitSuccess) return status;
  }
  // Without programs there is no daemon that would keep the rules: start one, and stay until a program has
  // come.
  const bool waits = std::none_of(lines.begin(), lines.end(), names_a_process);
  const Daemon daemon = connect(waits);
  if (daemon == nullptr) return kExitFailure;
  const std::uint64_t programs_before = programs_so_far(*daemon);
  std::uint32_t programs = 0;
  for (const std::string& line : lines) {
    if (const int status = set_line(*daemon, line, programs); status != kExitSuccess) return status;
  }
  // A rule of the connection manager is for no program in particular.
  const auto running = daemon->list_processes();
  if (programs != 0 || !waits || (running && !running->empty())) return kExitSuccess;
  return wait_for_a_program(*daemon, programs_before) ? kExitSuccess : kExitFailure;
}

int run_list(const FaultOptions& options) {
  const Daemon daemon = connect();
  if (daemon == nullptr) return kExitFailure;
  const auto list = daemon->request<control::FaultList>(control::ListFaults{}, kOnce);
  if (!list) return complain(kName, list.error().sentence, "");
  std::map<std::uint32_t, std::uint64_t> set_at;
  for (const control::NumberedRule& rule : list->rules) set_at[rule.number] = rule.set_ns;
  auto injections = count_injections(set_at);
  // The programs also log faults that the daemon injected, so count those only once.
  const auto times = [&](const control::NumberedRule& rule) {
    return rule.injected != 0 ? std::uint64_t{rule.injected} : std::uint64_t{injections[rule.number]};
  };
  Output output;
  if (options.json) {
    auto all = nlohmann::ordered_json::array();
    for (const control::NumberedRule& rule : list->rules)
      all.push_back({{"number", rule.number}, {"fault", rule.rule}, {"injected", times(rule)}});
    output.write(all.dump(2) + "\n");
  } else if (list->rules.empty()) {
    output.write("no fault is set\n");
  } else {
    const wire::Palette palette = palette_for(STDOUT_FILENO, ColourChoice::kAuto);
    Table table({{"NUMBER", Align::kRight}, {"INJECTED", Align::kRight}, {"FAULT"}});
    for (const control::NumberedRule& rule : list->rules)
      table.add({std::to_string(rule.number), std::to_string(times(rule)), rule.rule});
    output.write(table.text(palette.name, palette.reset));
  }
  if (const int error = output.flush(); error != 0) return complain(kName, std::strerror(error), "");
  return kExitSuccess;
}

int run_clear(const FaultOptions& options) {
  std::uint32_t number = 0;
  if (options.number != "all") {
    const auto [end, error] =
        std::from_chars(options.number.data(), options.number.data() + options.number.size(), number);
    if (error != std::errc() || end != options.number.data() + options.number.size() || number == 0)
      return complain(kName, "'" + printable(options.number) + "' is no number of a fault",
                      "`rrdma fault list` shows them; `rrdma fault clear all` clears every one");
  }
  const Daemon daemon = connect();
  if (daemon == nullptr) return kExitFailure;
  const auto done = daemon->request<control::Done>(control::ClearFault{.number = number}, kOnce);
  if (!done) return complain(kName, done.error().sentence, "");
  return kExitSuccess;
}

// Lists the words that rules may use.
int run_words(const FaultOptions& options) {
  const auto statuses = faults::statuses().subspan(1);  // without success, which is not a fault
  std::vector<std::string> forms;
  for (const faults::KindRow& row : faults::kind_rows())
    forms.push_back(std::string(row.word) + std::string(row.parameter));
  const std::array<std::pair<const char*, std::vector<std::string_view>>, 5> lists = {{
      {"faults", {forms.begin(), forms.end()}},
      {"functions", {faults::functions().begin(), faults::functions().end()}},
      {"errors", faults::errors()},
      {"statuses", {statuses.begin(), statuses.end()}},
      {"cm_messages", faults::cm_messages()},
  }};
  Output output;
  if (options.json) {
    nlohmann::ordered_json all;
    for (const auto& [name, words] : lists) all[name] = words;
    output.write(all.dump(2) + "\n");
  } else {
    for (const auto& [name, words] : lists)
      output.write(formatted("{}:\n  {}\n", name, joined(words, "\n  ")));
  }
  if (const int error = output.flush(); error != 0) return complain(kName, std::strerror(error), "");
  return kExitSuccess;
}

void add_set(CLI::App& fault, Runner& chosen) {
  auto options = std::make_shared<FaultOptions>();
  CLI::App* set = fault.add_subcommand("set", "Inject a fault into programs that run or start");
  set->add_option("FAULT", options->words, "Such as verb=ibv_reg_mr:ENOMEM, status=RETRY_EXC_ERR, port=down");
  for (const char* name :
       {"pid", "device", "qp", "peer", "direction", "nth", "every", "count", "after", "for", "seed"}) {
    set->add_option_function<std::string>(
           std::string("--") + name,
           [options, name](const std::string& value) { options->selectors[name] = value; },
           "The selector of this name")
        ->option_text("VALUE");
  }
  set->add_option("--plan", options->plan, "Inject all faults of this file (TOML)")->option_text("FILE");
  set->footer(
      "Faults: verb=FUNCTION:ERRNO[:N], slow=FUNCTION:TIME[:N], status=STATUS[:N], qp=error, qp=rnr, "
      "cq=overrun,\n"
      "cq=delay:TIME, srq=limit, port=down, port=up, port=speed:RATE, device=fatal, gid=lost, "
      "gid=add:ADDRESS,\n"
      "gid=change:ADDRESS, net=SPEC (drop=, burst=, dup=, reorder=, corrupt=, ecn=, delay=, rate=, mtu=), "
      "freeze,\n"
      "cm=drop:MESSAGE, cm=reject:REASON, cm=timewait, cm=timewait:TIME, cm=address.\n"
      "Each injected fault adds a line to `rrdma explain`.\n"
      "If no program uses RRDMA yet, the command waits for the first one; the fault is there before it "
      "starts.\n"
      "Exit status: 0, or 2 on failure.");
  set->callback([&chosen, options] {
    if (options->words.empty() == options->plan.empty()) throw CLI::RequiredError("FAULT or --plan");
    chosen = [options] { return run_set(*options); };
  });
}

}  // namespace

void add_fault_command(CLI::App& app, Runner& chosen) {
  CLI::App* fault = add_command(app, "fault", kTesting, "Inject faults into running programs",
                                "rrdma fault set verb=ibv_reg_mr:ENOMEM --count 1\nrrdma fault set "
                                "net=drop=0.01\nrrdma fault list\nrrdma fault clear all");
  fault->require_subcommand(1);
  add_set(*fault, chosen);
  auto listed = std::make_shared<FaultOptions>();
  CLI::App* list = fault->add_subcommand("list", "List the active faults and how often each was injected");
  list->add_flag("-j,--json", listed->json, "Print JSON");
  list->callback([&chosen, listed] { chosen = [listed] { return run_list(*listed); }; });
  auto named = std::make_shared<FaultOptions>();
  CLI::App* words =
      fault->add_subcommand("words", "List the functions, errors and statuses that a fault can name");
  words->add_flag("-j,--json", named->json, "Print JSON");
  words->callback([&chosen, named] { chosen = [named] { return run_words(*named); }; });
  auto cleared = std::make_shared<FaultOptions>();
  CLI::App* clear = fault->add_subcommand("clear", "Remove a fault");
  clear->add_option("NUMBER", cleared->number, "The number from `rrdma fault list`, or `all`")->required();
  clear->callback([&chosen, cleared] { chosen = [cleared] { return run_clear(*cleared); }; });
  fault->footer("Exit status: 0, or 2 on failure.");
}

}  // namespace rrdma::tools
