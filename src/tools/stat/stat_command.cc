// `rrdma stat`: shows the counters of a device, a process or a queue pair, once or repeatedly. stat_report.cc
// formats them; this file handles options, waiting and the screen.
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <memory>

#include "base/format.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/interrupt.h"
#include "tools/stat/stat_report.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

constexpr const char* kName = "rrdma stat";
constexpr std::string_view kHomeAndClear = "\x1b[H\x1b[2J";
constexpr double kWatchSecondsDefault = 1;

struct StatOptions {
  StatChoice choice;
  bool json = false;
  double watch_s = 0;       // 0: once
  std::uint64_t count = 0;  // 0: until interrupted
};

void pause_for(double seconds) {
  // Returns early on a signal; the caller checks interrupted().
  (void)::poll(nullptr, 0, static_cast<int>(seconds * 1000));
}

int run_stat(const StatOptions& options) {
  const wire::Palette palette = palette_for(STDOUT_FILENO, ColourChoice::kAuto);
  const bool screen = options.watch_s > 0 && !options.json && is_terminal(STDOUT_FILENO);
  if (options.watch_s > 0) watch_interrupts();
  std::optional<Observation> before;
  bool found = true;
  for (std::uint64_t round = 0;
       round == 0 || (options.watch_s > 0 && !interrupted() && (options.count == 0 || round < options.count));
       ++round) {
    if (round > 0) pause_for(options.watch_s);
    if (interrupted()) break;
    auto seen = observe();
    if (!seen) return complain(kName, seen.error().sentence, "");
    Observation now = chosen_part(std::move(*seen), options.choice);
    found = !now.processes.empty() || !(options.choice.pid || options.choice.qpn);
    Output output;
    if (screen) output.write(kHomeAndClear);
    if (options.json) {
      output.write(stat_json(now, options.choice, options.watch_s > 0));
    } else {
      if (!screen && round > 0) output.write("\n");
      output.write(stat_text(now, before ? &*before : nullptr, options.choice, palette,
                             terminal_columns(STDOUT_FILENO)));
    }
    if (const int error = output.flush(); error != 0)
      return complain(kName, formatted("cannot write the output: {}", std::strerror(error)), "");
    before = std::move(now);
  }
  return found ? kExitSuccess : kExitFoundFault;
}

std::optional<std::uint32_t> number_of(const std::string& text) {
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.c_str(), &end, 0);
  if (text.empty() || *end != '\0' || value > 0xffffffff || text.front() == '-') return std::nullopt;
  return static_cast<std::uint32_t>(value);
}

}  // namespace

void add_stat_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<StatOptions>();
  auto qpn = std::make_shared<std::string>();
  CLI::App* stat = add_command(app, "stat", kLooking,
                               "Show the counters of all programs, a device, a process or a queue pair",
                               "rrdma stat\nrrdma stat --watch 1\nrrdma stat --json");
  stat->add_option("-p,--pid", options->choice.pid, "Show the counters of this process")->option_text("PID");
  stat->add_option("-d,--device", options->choice.device,
                   "Show the counters of this device, including programs that have exited")
      ->option_text("NAME");
  stat->add_option("-q,--qp", *qpn, "Show the counters of this queue pair")
      ->option_text("QPN")
      ->check([](const std::string& text) {
        return number_of(text) ? std::string() : "'" + text + "' is not a queue pair number such as 0x030001";
      });
  stat->add_flag("-Q,--qps", options->choice.queue_pairs, "Show a table of queue pairs");
  stat->add_flag("-a,--all", options->choice.zeros, "Also show counters that are 0");
  stat->add_option("-w,--watch", options->watch_s, "Repeat in this interval (default 1) and show rates")
      ->option_text("[SECONDS]")
      ->expected(0, 1)
      ->check(CLI::Range(0.1, 3600.0));
  stat->add_option("-n,--count", options->count, "With --watch: stop after N updates")
      ->option_text("N")
      ->check(CLI::PositiveNumber);
  stat->add_flag("-j,--json", options->json, "Print JSON; with --watch one object per line");
  stat->footer(
      "Without options: the daemon, a line for each program that uses RRDMA, and one for each device.\n"
      "Exit status: 0; 1 if the named process or queue pair does not exist; 2 on failure.");
  stat->callback([&chosen, options, qpn, stat] {
    if (!qpn->empty()) options->choice.qpn = number_of(*qpn);
    if (stat->count("--watch") > 0 && options->watch_s == 0) options->watch_s = kWatchSecondsDefault;
    chosen = [options] { return run_stat(*options); };
  });
}

}  // namespace rrdma::tools
