// `rrdma lab`: creates a network of hosts on one machine, as an ordinary user (lab_space.h). Programs in it
// find RRDMA's device. The lab exists while the command or the program given to it runs; the other
// subcommands join it.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

#include "base/format.h"
#include "host/own_executable.h"
#include "lab/lab_space.h"
#include "lab/link_faults.h"
#include "lab/picture.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

constexpr const char* kName = "rrdma lab";
constexpr auto kMeasuringTime = std::chrono::milliseconds(300);

struct LabOptions {
  std::string what;  // a file or a preset
  PresetSizes sizes;
  LinkShape shape;
  std::vector<std::string> preset_words;  // given options that apply to presets only
  std::string host;
  std::vector<std::string> words;
  std::string svg;
};

// Replaces this process.
[[noreturn]] void become(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(complain(kName, formatted("'{}' cannot be run: {}", words[0], std::strerror(errno)), ""));
}

int status_of(pid_t child) {
  (void)::signal(SIGINT, SIG_IGN);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  (void)::signal(SIGINT, SIG_DFL);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Prepends the rules of the links to the user's rules: a later rule wins.
void add_link_faults(const LabState& state, std::size_t node) {
  if (!state.links_by_faults) return;
  std::string rules = link_faults(state.topology, state.cut, node);
  if (rules.empty()) return;
  if (const char* own = std::getenv("RRDMA_FAULTS"); own != nullptr && *own != '\0')
    rules += ";" + std::string(own);
  ::setenv("RRDMA_FAULTS", rules.c_str(), 1);
}

// Runs a program on a node, with the device. Without a node, runs it in the lab itself, without a device.
int run_in(const LabState& state, std::size_t node, std::vector<std::string> words) {
  const pid_t child = ::fork();
  if (child < 0) return complain(kName, std::strerror(errno), "");
  if (child != 0) return status_of(child);
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (node != std::string::npos) {
    if (!enter_node(state, node))
      ::_exit(complain(kName, formatted("the host cannot be entered: {}", std::strerror(errno)), ""));
    add_link_faults(state, node);
    words.insert(words.begin(), {host::own_executable(), "run", "--"});
  }
  become(std::move(words));
}

// Waits for Ctrl-C.
int stay(const LabState& state) {
  std::cout << terminal_picture(state.topology, {}, {})
            << "\nThe lab is up. In another terminal: rrdma lab shell HOST, rrdma lab run HOST -- PROGRAM. "
               "Ctrl-C or rrdma lab down ends it.\n"
            << std::flush;
  sigset_t ends;
  sigemptyset(&ends);
  for (const int which : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, which);
  (void)::sigprocmask(SIG_BLOCK, &ends, nullptr);
  int signal = 0;
  (void)::sigwait(&ends, &signal);
  return kExitSuccess;
}

int run_up(const LabOptions& options) {
  if (!is_preset(options.what) && !options.preset_words.empty())
    return complain(
        kName,
        formatted("{} is for presets, and '{}' is a file", options.preset_words[0], printable(options.what)),
        "write it there: hosts = 8, or rate = \"10G\" under [defaults]");
  auto topology = is_preset(options.what) ? make_preset(options.what, options.sizes, options.shape)
                                          : read_topology(options.what);
  if (!topology)
    return complain(kName, topology.error(),
                    "presets: pair, leaf-spine, star, ring, dumbbell; or a TOML file");
  std::cout << std::flush;
  const auto ended = run_lab(*topology, [&](const LabState& state) {
    return options.words.empty() ? stay(state) : run_in(state, std::string::npos, options.words);
  });
  if (!ended) return complain(kName, ended.error().sentence, ended.error().hint);
  return *ended;
}

// Joins the lab and finds the named node. On failure, reports it and exits.
struct Joined {
  LabState state;
  std::size_t node = std::string::npos;
};
std::optional<Joined> join(const std::string& host) {
  auto state = join_lab();
  if (!state) {
    complain(kName, state.error().sentence, state.error().hint);
    return std::nullopt;
  }
  Joined joined{std::move(*state)};
  if (host.empty()) return joined;
  joined.node = joined.state.topology.find(host);
  if (joined.node != std::string::npos) return joined;
  complain(kName, "the lab has no node '" + printable(host) + "'",
           "`rrdma lab show` shows those that it has");
  return std::nullopt;
}

int run_run(const LabOptions& options, std::vector<std::string> words) {
  const auto joined = join(options.host);
  return joined ? run_in(joined->state, joined->node, std::move(words)) : kExitFailure;
}

// Runs a shell command line on a host, for `mpirun`.
int run_rsh(const LabOptions& options) {
  std::string line;
  for (const std::string& word : options.words) line += (line.empty() ? "" : " ") + word;
  return run_run(options, {"/bin/sh", "-c", line});
}

int run_mpirun(const LabOptions& options) {
  // Before joining: only the children are in the lab's PID namespace, which its /proc shows.
  const std::string own = host::own_executable();
  const auto joined = join("");
  if (!joined) return kExitFailure;
  std::string hosts;
  std::size_t first = std::string::npos;
  for (std::size_t node = 0; node < joined->state.topology.nodes.size(); ++node) {
    const LabNode& of = joined->state.topology.nodes[node];
    if (!of.is_host) continue;
    if (first == std::string::npos) first = node;
    hosts += (hosts.empty() ? "" : ",") + of.name;
  }
  std::vector<std::string> words = {"mpirun",
                                    "--mca",
                                    "plm_rsh_agent",
                                    own + " lab rsh",
                                    "--mca",
                                    "plm_rsh_no_tree_spawn",
                                    "1",
                                    "--mca",
                                    "pml",
                                    "ucx",
                                    "--host",
                                    hosts,
                                    "--mca",
                                    "oob_tcp_if_include",
                                    "eth0"};
  words.insert(words.end(), options.words.begin(), options.words.end());
  return run_in(joined->state, first, std::move(words));
}

int change_links(const LabOptions& options, bool up) {
  auto joined = join("");
  if (!joined) return kExitFailure;
  LabState& state = joined->state;
  const std::size_t a = state.topology.find(options.words[0]);
  const std::size_t b = options.words.size() > 1 ? state.topology.find(options.words[1]) : std::string::npos;
  std::size_t changed = 0;
  for (std::size_t i = 0; i < state.topology.links.size(); ++i) {
    const LabLink& link = state.topology.links[i];
    const bool of_a = a != std::string::npos && (link.a == a || link.b == a);
    if (!of_a || (options.words.size() > 1 && link.a != b && link.b != b)) continue;
    if (auto set = set_link(state.topology, state.holders, i, up); !set)
      return complain(kName, set.error(), "");
    if (up) {
      state.cut.erase(i);
    } else {
      state.cut.insert(i);
    }
    ++changed;
  }
  if (changed == 0) return complain(kName, "the lab has no such link", "`rrdma lab show` shows its links");
  if (auto set = set_routes(state.topology, state.holders, state.cut); !set)
    return complain(kName, set.error(), "");
  keep_cuts(state);
  return kExitSuccess;
}

int run_show(const LabOptions& options) {
  const int folder = ::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // the lab has other mounts
  const auto joined = join("");
  if (!joined) return kExitFailure;
  if (options.svg.empty()) {
    const auto traffic = measure_links(joined->state.topology, joined->state.holders, kMeasuringTime);
    std::cout << terminal_picture(joined->state.topology, joined->state.cut, traffic);
    return kExitSuccess;
  }
  if (folder < 0 || ::fchdir(folder) != 0)
    return complain(kName, "cannot go back to the current folder: " + std::string(std::strerror(errno)), "");
  std::ofstream file(options.svg);
  file << svg_picture(joined->state.topology, joined->state.cut);
  file.close();
  return file ? kExitSuccess : complain(kName, "cannot write '" + options.svg + "'", "");
}

// The words after the options: a program and its arguments, which CLI11 must not parse.
std::vector<std::string>& words_behind() {
  static std::vector<std::string> words;
  return words;
}

CLI::App* add_up(CLI::App& lab, Runner& chosen) {
  auto options = std::make_shared<LabOptions>();
  CLI::App* up = lab.add_subcommand("up", "Create a lab; it exists until this command exits");
  up->add_option("TOPOLOGY", options->what,
                 "A TOML file, or a preset: pair, leaf-spine, star, ring, dumbbell")
      ->required();
  const auto add_size = [&](const char* name, std::uint32_t& to, const char* what) {
    up->add_option_function<std::uint32_t>(
          name,
          [options, name, &to](std::uint32_t value) {
            to = value;
            options->preset_words.emplace_back(name);
          },
          what)
        ->option_text("N");
  };
  add_size("--hosts", options->sizes.hosts, "Number of hosts of a preset");
  add_size("--leaves", options->sizes.leaves, "Number of leaf switches of leaf-spine");
  add_size("--spines", options->sizes.spines, "Number of spine switches of leaf-spine");
  const auto add_property = [&](const char* name, const char* value, const char* what) {
    const auto set = [options, name](const std::string& text) {
      if (auto done = set_property(options->shape, name, text); !done)
        throw CLI::ValidationError(std::string("--") + name, done.error());
      options->preset_words.push_back(std::string("--") + name);
    };
    up->add_option_function<std::string>(std::string("--") + name, set, what)->option_text(value);
  };
  add_property("rate", "RATE", "Rate of each link of a preset, such as 10G or 100Mbit");
  add_property("delay", "TIME", "Delay of each link, such as 20us");
  add_property("loss", "CHANCE", "Loss of each link, such as 0.1%");
  add_property("queue", "PACKETS", "Queue length of each link");
  add_property("mtu", "BYTES", "MTU of each link");
  up->add_flag_callback(
      "--ecn",
      [options] {
        options->shape.ecn = true;
        options->preset_words.emplace_back("--ecn");
      },
      "Mark the packets that --loss would drop");
  up->callback([&chosen, options] {
    options->words = words_behind();
    chosen = [options] { return run_up(*options); };
  });
  return up;
}

template <typename Run>
CLI::App* add_program(CLI::App& lab, Runner& chosen, const char* name, const char* what, bool names_host,
                      Run run) {
  auto options = std::make_shared<LabOptions>();
  CLI::App* command = lab.add_subcommand(name, what);
  if (names_host) command->add_option("HOST", options->host, "A node of the lab")->required();
  command->callback([&chosen, options, run] {
    options->words = words_behind();
    chosen = [options, run] { return run(*options); };
  });
  return command;
}

// Inserts the `up` of `rrdma lab TOPOLOGY`, and removes the words of a program from the arguments.
void settle_lab_words(std::vector<char*>& out) {
  static char up[] = "up";
  if (out.size() > 2 && std::strcmp(out[1], "lab") == 0 && out[2][0] != '-') {
    const auto is_one_of = [&](std::initializer_list<const char*> names) {
      return std::any_of(names.begin(), names.end(),
                         [&](const char* name) { return std::strcmp(name, out[2]) == 0; });
    };
    if (!is_one_of({"up", "run", "shell", "mpirun", "rsh", "fault", "cut", "heal", "show", "down"}))
      out.insert(out.begin() + 2, up);
    std::size_t first = out.size();  // of the program's words
    if (is_one_of({"run", "shell", "rsh", "fault"})) first = 4;
    if (is_one_of({"mpirun"})) first = 3;
    for (std::size_t i = 3; first > 4 && i < out.size(); ++i) {
      if (std::strcmp(out[i], "--") == 0) first = std::min(first, i);
    }
    const bool asks =
        out.size() > 3 && (std::strcmp(out[3], "--help") == 0 || std::strcmp(out[3], "-h") == 0);
    if (first < out.size() && !asks) {
      words_behind().assign(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
      out.resize(first);
      if (words_behind().front() == "--") words_behind().erase(words_behind().begin());
    }
  }
}

}  // namespace

void add_lab_command(CLI::App& app, Runner& chosen) {
  CLI::App* lab =
      add_command(app, "lab", kTesting, "Create a virtual network of hosts on this machine, unprivileged",
                  "rrdma lab up star\nrrdma lab run h1 -- ib_write_bw\nrrdma lab run h2 -- ib_write_bw "
                  "h1\nrrdma lab cut h1 s1");
  lab->require_subcommand(1);
  argument_hooks().push_back(settle_lab_words);
  add_up(*lab, chosen);
  add_program(*lab, chosen, "run", "Run a program on a host, with the device", true,
              [](const LabOptions& options) {
                if (options.words.empty())
                  return complain(kName, "a program is missing", "rrdma lab run HOST -- PROGRAM");
                return run_run(options, options.words);
              });
  add_program(*lab, chosen, "shell", "Start a shell on a host", true, [](const LabOptions& options) {
    const char* shell = std::getenv("SHELL");
    return run_run(options, {shell != nullptr && *shell != '\0' ? shell : "/bin/sh"});
  });
  add_program(*lab, chosen, "mpirun", "Run an Open MPI program on all hosts, over UCX", false, run_mpirun);
  add_program(*lab, chosen, "rsh", "Run a shell command on a host, with the interface of rsh", true, run_rsh);
  add_program(*lab, chosen, "fault", "Run `rrdma fault` on a host: rrdma lab fault HOST set port=down", true,
              [](const LabOptions& options) {
                std::vector<std::string> words = {host::own_executable(), "fault"};
                words.insert(words.end(), options.words.begin(), options.words.end());
                return run_run(options, words);
              });
  for (const bool up : {false, true}) {
    auto options = std::make_shared<LabOptions>();
    CLI::App* change = lab->add_subcommand(up ? "heal" : "cut", up ? "Restore a link, or all links of a node"
                                                                   : "Cut a link, or all links of a node");
    change->add_option("NODES", options->words, "Both ends of a link, or a node")
        ->required()
        ->expected(1, 2)
        ->option_text("NODE [NODE]");
    change->callback(
        [&chosen, options, up] { chosen = [options, up] { return change_links(*options, up); }; });
  }
  auto options = std::make_shared<LabOptions>();
  CLI::App* down = lab->add_subcommand("down", "End the lab and all programs in it");
  down->callback([&chosen] {
    chosen = [] {
      const auto ended = end_lab();
      return ended ? kExitSuccess : complain(kName, ended.error().sentence, ended.error().hint);
    };
  });
  CLI::App* show = lab->add_subcommand("show", "Draw the lab, with the traffic and the drops of each link");
  show->add_option("--svg", options->svg, "Write an SVG file")->option_text("FILE");
  show->callback([&chosen, options] { chosen = [options] { return run_show(*options); }; });
  lab->footer(
      "`rrdma lab TOPOLOGY` is short for `rrdma lab up TOPOLOGY`. With -- PROGRAM, the lab exists while the "
      "program runs.\n"
      "Exit status: that of the program, or 2 on failure.");
}

}  // namespace rrdma::tools
