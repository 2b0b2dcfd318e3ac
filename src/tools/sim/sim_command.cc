// `rrdma sim`: runs the engine in a simulated network, in virtual time: one world described by the options,
// or many random ones. Every completion is checked against the guarantees of the transport. A violation is
// reported with its seed, the last packets and a capture.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "base/format.h"
#include "sim/exchange.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/interrupt.h"
#include "tools/sim/scenario_report.h"
#include "tools/sim/sim_plan.h"
#include "tools/sim/sim_report.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

template <typename... Values>
void print(std::FILE* file, fmt::format_string<Values...> text, Values&&... values) {
  const std::string line = format_text(text, fmt::make_format_args(values...));
  std::fwrite(line.data(), 1, line.size(), file);
}

constexpr std::string_view kName = "rrdma sim";
constexpr std::string_view kSimExits =
    "Without options: all operations between two hosts for 50 ms of virtual time. This takes a few seconds.\n"
    "With only --seeds or --seed, the simulation is random: the seed determines hosts, cables, faults and\n"
    "workload. The same seed gives the same run on every machine.\n"
    "\n"
    "Examples:\n"
    "  rrdma sim --workload write --bandwidth 25G --rtt 100us --fault drop=0.01%\n"
    "  rrdma sim --hosts 8 --qps 64 --workload mix --fault "
    "'drop=1%,dup=0.1%,reorder=2%,corrupt=0.1%,seed=7'\n"
    "  rrdma sim --seeds 1000\n"
    "  rrdma sim --scenario incast --svg incast.svg\n"
    "  rrdma sim --scenario dumbbell --flows 16 --tcp 1\n"
    "\n"
    "Exit status:\n"
    "  0  all guarantees held\n"
    "  1  a guarantee was violated; the seed and the last packets are shown\n"
    "  2  an argument is wrong\n"
    "Ctrl-C prints the results so far and ends the command by the signal.\n";

using Clock = std::chrono::steady_clock;

// Shows progress on standard error: one line that is overwritten if that is a terminal, otherwise a line now
// and then for the log.
class Progress {
 public:
  explicit Progress(bool wanted)
      : wanted_(wanted), terminal_(is_terminal(STDERR_FILENO)), start_(Clock::now()), last_(start_) {}
  ~Progress() { clear(); }

  // `done` of 1000.
  void show(std::uint64_t done, const std::string& what) {
    const auto now = Clock::now();
    if (!wanted_ || now - last_ < (terminal_ ? kScreenInterval : kLogInterval)) return;
    last_ = now;
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    const double left =
        done == 0 ? 0 : elapsed * static_cast<double>(1000 - done) / static_cast<double>(done);
    const std::string numbers =
        formatted("{:>5.1f} %  {}  {:.0f} s left", static_cast<double>(done) / 10.0, what, left);
    if (terminal_) {
      constexpr std::uint64_t kWidth = 30;
      std::string bar(done * kWidth / 1000, '#');
      bar.resize(kWidth, '.');
      print(stderr, "\r\033[K[{}] {}", bar, numbers);
    } else {
      print(stderr, "{}:{}\n", kName, numbers);
    }
    std::fflush(stderr);
    shown_ = terminal_;
  }
  void clear() {
    if (shown_) print(stderr, "\r\033[K");
    shown_ = false;
  }

 private:
  static constexpr Clock::duration kScreenInterval = std::chrono::milliseconds(200);
  static constexpr Clock::duration kLogInterval = std::chrono::seconds(5);

  const bool wanted_;
  const bool terminal_;
  bool shown_ = false;
  Clock::time_point start_;
  Clock::time_point last_;
};

int report_violation(const SimOptions& options, const sim::Plan& plan) {
  bool saved = false;
  print(stdout, "{}\n", violation_story(plan, options, saved));
  if (options.pcap.empty()) {
    print(stdout, "no capture was written: the same options with --seed {} --pcap FILE write one\n",
          plan.seed);
  } else if (saved) {
    print(stdout, "capture: {} (rrdma decode {})\n", options.pcap, options.pcap);
  } else {
    print(stdout, "the capture could not be written to {}\n", options.pcap);
  }
  return kExitFoundFault;
}

// `done`: the completed part, for the message after an interrupt.
int finish(const SimOptions& options, const SimSummary& summary, const std::string& done) {
  if (interrupted() && !options.json)
    print(stdout, "interrupted after {}; so far no promise was broken\n", done);
  if (options.json) {
    print(stdout, "{}", summary_json(options, summary, !interrupted()));
  } else {
    print(stdout, "{}", summary_table(options, summary, palette_for(STDOUT_FILENO, ColourChoice::kAuto)));
  }
  return interrupted() ? kExitFailure : kExitSuccess;  // main() then ends the process by the signal
}

int run_one(const SimOptions& options) {
  const auto plan = plan_for(options, options.seed);
  if (!plan) return complain(kName, plan.error(), "'rrdma sim --help' shows the usage");
  sim::Exchange exchange(*plan);
  Progress progress(!options.json);
  const std::int64_t whole = plan->run_time.ns != 0 ? plan->run_time.ns : plan->turbulence_max.ns;
  for (std::uint64_t steps = 0; exchange.step(); ++steps) {
    if (steps % 4096 != 0) continue;
    if (interrupted()) break;
    const std::int64_t now = exchange.world().now().ns;
    progress.show(static_cast<std::uint64_t>(std::min<std::int64_t>(now * 1000 / whole, 1000)),
                  formatted("{} messages", exchange.totals().messages_succeeded));
  }
  progress.clear();
  exchange.abandon();
  if (exchange.world().violation()) return report_violation(options, *plan);
  SimSummary summary;
  summary.add(exchange);
  return finish(options, summary,
                formatted("{} of {} of virtual time", time_text(exchange.world().now() - Instant{}),
                          time_text(nanoseconds(whole))));
}

// Returns false after a violation or an interrupt.
bool run_to_the_end(sim::Exchange& exchange) {
  for (std::uint64_t steps = 0; exchange.step(); ++steps) {
    if (steps % 4096 == 0 && interrupted()) return false;
  }
  return !exchange.world().violation();
}

int run_shown_scenario(const SimOptions& options) {
  const auto plan = scenario_plan(options);
  if (!plan) return complain(kName, plan.error(), "'rrdma sim --help' shows the usage");
  const sim::ScenarioReport report = sim::run_scenario(*plan);
  if (!options.svg.empty()) {
    std::ofstream file(options.svg);
    file << scenario_svg(options, *plan, report);
    file.close();
    if (!file.good())
      return complain(kName, "the drawing cannot be written to '" + options.svg + "'",
                      "name another file for --svg");
  }
  print(stdout, "{}",
        options.json
            ? scenario_json(options, *plan, report)
            : scenario_table(options, *plan, report, palette_for(STDOUT_FILENO, ColourChoice::kAuto)));
  return kExitSuccess;
}

int run_many(const SimOptions& options) {
  if (const auto plan = plan_for(options, options.seed); !plan) {
    return complain(kName, plan.error(), "'rrdma sim --help' shows the usage");
  }
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::uint64_t> broken{~std::uint64_t{0}};  // the lowest seed with a violation
  std::mutex mutex;
  SimSummary summary;
  const auto work = [&] {
    SimSummary own;
    for (std::uint64_t i = next++; i < options.seeds && !interrupted(); i = next++) {
      const std::uint64_t seed = options.seed + i;
      if (seed > broken) break;
      sim::Exchange exchange(*plan_for(options, seed));
      if (run_to_the_end(exchange)) {
        own.add(exchange);
      } else if (exchange.world().violation()) {
        std::uint64_t lowest = broken;
        while (seed < lowest && !broken.compare_exchange_weak(lowest, seed)) {
        }
      }
      ++done;
    }
    const std::lock_guard lock(mutex);
    summary.runs += own.runs;
    summary.virtual_ns += own.virtual_ns;
    summary.totals.messages_posted += own.totals.messages_posted;
    summary.totals.messages_succeeded += own.totals.messages_succeeded;
    summary.totals.messages_failed += own.totals.messages_failed;
    summary.totals.octets_moved += own.totals.octets_moved;
    summary.totals.latency.merge(own.totals.latency);
    summary.coverage.add(own.coverage);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  Progress progress(!options.json);
  while (done < options.seeds && next < options.seeds + threads.size() && !interrupted() &&
         broken == ~std::uint64_t{0}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    progress.show(done * 1000 / options.seeds, formatted("{} of {} seeds", done.load(), options.seeds));
  }
  for (auto& thread : threads) thread.join();
  progress.clear();
  if (broken != ~std::uint64_t{0}) return report_violation(options, *plan_for(options, broken));
  return finish(options, summary, formatted("{} of {} seeds", summary.runs, options.seeds));
}

CLI::Option* add_faults_option(CLI::App& sim, SimOptions& options) {
  return sim
      .add_option("--faults", options.faults,
                  "Inject faults: a plan (a TOML file) or one fault with its time, such as 'net=drop=5% "
                  "after=10ms for=5ms device=h0'; repeatable")
      ->option_text("PLAN|FAULT")
      ->allow_extra_args(false);
}

}  // namespace

void add_sim_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<SimOptions>();
  CLI::App* sim = add_command(app, "sim", kTesting,
                              "Run the protocol engine in a simulated network and verify its guarantees",
                              "rrdma sim --seconds 1\nrrdma sim --scenario incast --cc dcqcn");
  std::vector<CLI::Option*> shape = {
      sim->add_option("--hosts", options->hosts, "Number of hosts, on one switch")->capture_default_str(),
      sim->add_option("--qps", options->qps, "Number of connected QPs, distributed over the hosts")
          ->capture_default_str(),
      sim->add_option("--type", options->type, "rc, uc or ud")->capture_default_str(),
      sim->add_option("--size", options->size, "Bytes of a message (mix: the maximum)")
          ->capture_default_str(),
      sim->add_option("--mtu", options->mtu, "Path MTU")->capture_default_str(),
      sim->add_option("--depth", options->depth, "Requests outstanding on each QP")->capture_default_str(),
      sim->add_flag("--both-ways", options->both_ways, "Both ends of a connection send"),
      sim->add_option("--seconds", options->seconds, "Virtual time to run")->capture_default_str(),
      sim->add_option("--bandwidth", options->bandwidth, "Bandwidth of every cable, such as 25G or 400M")
          ->capture_default_str(),
      sim->add_option("--rtt", options->rtt, "Round-trip time of the empty network")->capture_default_str(),
      sim->add_option("--queue", options->queue, "Queue of the switch for one host, in bytes")
          ->capture_default_str(),
      sim->add_option(
          "--fault", options->fault,
          "Inject packet faults, such as 'drop=1%,dup=0.1%,reorder=2%,corrupt=0.1%,ecn=1%,delay=50us±20us'"),
      add_faults_option(*sim, *options),
  };
  sim->add_option("--scenario", options->scenario, "Measure flows to one host: incast, dumbbell or lossy")
      ->option_text("NAME");
  sim->add_option("--flows", options->flows, "Number of flows of a scenario (default: 32, 2, 1)");
  sim->add_option("--tcp", options->tcp, "Number of TCP flows (a model of CUBIC) next to them");
  sim->add_option("--svg", options->svg, "Plot goodput and queue of a scenario to this file");
  sim->add_option("--cc", options->congestion, "Congestion control: auto, loss, swift, dcqcn, fixed or none")
      ->capture_default_str();
  sim->add_flag("--strangers", options->strangers, "The ends do not know that both are RRDMA");
  sim->add_flag("--strict", options->strict, "Send only what the specification defines, and use go-back-N");
  sim->add_option("--workload", options->workload, "send, write, read, atomic, mix or random");
  CLI::Option* seed =
      sim->add_option("--seed", options->seed, "Seed of all random decisions")->capture_default_str();
  CLI::Option* seeds = sim->add_option("--seeds", options->seeds, "Run this many seeds, starting at --seed")
                           ->check(CLI::PositiveNumber);
  sim->add_option("--trace", options->trace, "Packets to print after a violation")->capture_default_str();
  sim->add_option("--pcap", options->pcap, "Write the packets of a violation to this file");
  sim->add_flag("-j,--json", options->json, "Print the summary as one JSON object");
  sim->footer(std::string(kSimExits));
  sim->callback([&chosen, options, sim, shape, seed, seeds] {
    options->seed_given = seed->count() != 0;
    options->seeds_given = seeds->count() != 0;
    for (const CLI::Option* option : shape) options->shape_given |= option->count() != 0;
    options->bandwidth_given = sim->count("--bandwidth") != 0;
    options->rtt_given = sim->count("--rtt") != 0;
    options->seconds_given = sim->count("--seconds") != 0;
    options->queue_given = sim->count("--queue") != 0;
    chosen = [options] {
      watch_interrupts();
      if (!options->scenario.empty()) return run_shown_scenario(*options);
      return options->seeds > 1 ? run_many(*options) : run_one(*options);
    };
  });
}

}  // namespace rrdma::tools
