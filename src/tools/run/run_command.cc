// `rrdma run`: starts a program with librrdma.so.1 loaded into it. Environment variables carry the settings
// (nic/settings.h). The program replaces this process, so that signals, the terminal and the exit status are
// its own.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/run/device_options.h"
#include "tools/run/library_file.h"
#include "tools/run/private_network.h"
#include "tools/run/program_file.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

constexpr const char* kName = "rrdma run";
// For failures of the program; kExitRunFailure is for our own.
constexpr int kUnsuitable = 126;

struct RunOptions {
  DeviceSettings settings;
  std::vector<std::string> command;
};

// Adds the program and its arguments to the usage, which CLI11 does not know.
class RunFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string name) const override {
    return "Usage: " + name + " [OPTIONS] [--] PROGRAM [ARGS...]\n";
  }
};

int refuse(int status, const std::string& sentence, const std::string& hint) {
  complain(kName, sentence, hint);
  return status;
}

// Reports why the library cannot be loaded into a program, and returns the exit status; 0 if it can.
int refuse_unreachable(const ProgramFile& program) {
  const std::string name = "'" + program.loaded + "'";
  if (program.other_machine) {
    return refuse(kUnsuitable, name + " is built for another architecture than " + kDeviceLibrary,
                  "run it with an RRDMA of its own architecture");
  }
  if (program.static_linked) {
    return refuse(kUnsuitable, name + " is statically linked, and no library can be loaded into it",
                  "link it dynamically against libibverbs");
  }
  if (program.musl) {
    return refuse(kUnsuitable, name + " is linked against musl, and the library against glibc",
                  "build the program on a system with glibc");
  }
  if (program.gains_privilege) {
    return refuse(
        kUnsuitable,
        name + " is setuid, setgid or has file capabilities, and the loader then ignores preloaded libraries",
        "run a copy of it without these rights: cp it somewhere of your own");
  }
  return 0;
}

int run_program(RunOptions& options) {
  if (const auto settled = settle(options.settings); !settled)
    return refuse(kExitRunFailure, settled.error().sentence, settled.error().hint);
  const auto libraries = libraries_of(options.settings);
  if (!libraries) return refuse(kExitRunFailure, libraries.error().sentence, libraries.error().hint);
  auto program = inspect_program(options.command.front());
  if (!program) return refuse(program.error().exit_status, program.error().sentence, "");
  if (const int status = refuse_unreachable(*program); status != 0) return status;
  if (const auto prepared = prepare_capture(options.settings); !prepared)
    return refuse(kExitRunFailure, prepared.error().sentence, prepared.error().hint);
  if (options.settings.private_network) {
    if (const auto entered = enter_private_network(options.settings.devices); !entered)
      return refuse(kExitRunFailure, entered.error().sentence, entered.error().hint);
  }
  for (const auto& [name, value] : variables_of(options.settings)) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("LD_PRELOAD", preload_with(*libraries, program->sanitizers).c_str(), 1);
  std::vector<char*> arguments;
  for (std::string& argument : options.command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  ::execv(program->path.c_str(), arguments.data());
  if (errno == ENOEXEC) {  // a script without an interpreter line: do what shells do
    arguments.insert(arguments.begin() + 1, program->path.data());
    static char shell[] = "/bin/sh";
    arguments[0] = shell;
    ::execv(shell, arguments.data());
  }
  return refuse(kUnsuitable, "'" + program->path + "' cannot be executed: " + std::strerror(errno), "");
}

// Whether the next word is this option's value. An unknown option has none: it is to be reported, and must
// not hide the next word.
bool takes_a_value(const CLI::App& run, const char* word) {
  if (std::strchr(word, '=') != nullptr) return false;
  const CLI::Option* option = run.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_max() > 0;
}

}  // namespace

int drop_run_separator(CLI::App& app, int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "run") != 0) return argc;
  const CLI::App& run = *app.get_subcommand("run");
  int i = 2;
  while (i < argc && argv[i][0] == '-' && std::strcmp(argv[i], "--") != 0)
    i += takes_a_value(run, argv[i]) ? 2 : 1;
  if (i >= argc || std::strcmp(argv[i], "--") != 0) return argc;
  std::copy(argv + i + 1, argv + argc + 1, argv + i);
  return argc - 1;
}

void add_run_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = add_command(app, "run", kRunning, "Run a program with an RDMA device in software",
                              "rrdma run -- ib_write_bw\nrrdma run --explain --pcap run.pcapng -- "
                              "./server\nrrdma run --fault drop=0.01 -- ib_send_lat 10.9.0.1");
  add_device_options(*run, options->settings);
  run->formatter(std::make_shared<RunFormatter>());
  // All words from the program's name on belong to the program.
  run->prefix_command();
  run->callback([&chosen, options, run] {
    options->command = run->remaining();
    if (!options->command.empty() && options->command.front().starts_with('-')) {
      throw CLI::ExtrasError({options->command.front()});
    }
    if (options->command.empty()) throw CLI::RequiredError("PROGRAM");
    chosen = [options] { return run_program(*options); };
  });
  run->footer(
      "All words after PROGRAM are passed to it. For a whole shell: `rrdma shell`.\n"
      "Exit status: that of the program; 125: rrdma failed, 126: the program cannot be run, 127: it was not "
      "found.");
}

}  // namespace rrdma::tools
