// `rrdma shell` and `rrdma env`: the device for a whole shell, either a new one or the current one by eval
// "$(rrdma env)". run_command.cc handles single programs.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/run/device_options.h"
#include "tools/run/library_file.h"
#include "tools/run/private_network.h"
#include "tools/run/program_file.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

constexpr const char* kShellName = "rrdma shell";
constexpr const char* kEnvName = "rrdma env";

std::string users_shell() {
  const char* shell = std::getenv("SHELL");
  return shell != nullptr && *shell != '\0' ? shell : "/bin/sh";
}

int run_shell(DeviceSettings& settings) {
  if (const auto settled = settle(settings); !settled)
    return complain(kShellName, settled.error().sentence, settled.error().hint);
  const auto libraries = libraries_of(settings);
  if (!libraries) return complain(kShellName, libraries.error().sentence, libraries.error().hint);
  const std::string shell = users_shell();
  const auto program = inspect_program(shell);
  if (!program) return complain(kShellName, program.error().sentence, "SHELL names the shell to start");
  if (program->static_linked || program->musl || program->gains_privilege || program->other_machine) {
    return complain(kShellName, "no library can be loaded into '" + program->loaded + "'",
                    "set SHELL to another shell: SHELL=/bin/bash rrdma shell");
  }
  if (const auto prepared = prepare_capture(settings); !prepared)
    return complain(kShellName, prepared.error().sentence, prepared.error().hint);
  if (settings.private_network) {
    if (const auto entered = enter_private_network(settings.devices); !entered)
      return complain(kShellName, entered.error().sentence, entered.error().hint);
  }
  for (const auto& [name, value] : variables_of(settings)) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("LD_PRELOAD", preload_with(*libraries, program->sanitizers).c_str(), 1);
  if (is_terminal(STDIN_FILENO))
    std::cerr << "Programs started here find the device rrdma0; `exit` or Ctrl-D leaves.\n";
  std::string path = program->path;
  char* arguments[] = {path.data(), nullptr};
  ::execv(path.c_str(), arguments);
  return complain(kShellName, "'" + path + "' cannot be executed: " + std::strerror(errno), "");
}

struct EnvOptions {
  DeviceSettings settings;
  bool unset = false;
  bool json = false;
};

// Quotes a value with single quotes for any POSIX shell.
std::string quoted(const std::string& value) {
  std::string text = "'";
  for (const char c : value) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string unset_text() {
  std::string text = "unset";
  for (const std::string& name : variable_names()) text += " " + name;
  const std::string preload = preload_without();
  return text + (preload.empty() ? "\nunset LD_PRELOAD\n" : "\nexport LD_PRELOAD=" + quoted(preload) + "\n");
}

int run_env(EnvOptions& options) {
  if (const auto settled = settle(options.settings); !settled)
    return complain(kEnvName, settled.error().sentence, settled.error().hint);
  if (options.settings.private_network)
    return complain(kEnvName, "--private makes a network namespace, which this shell cannot be taken to",
                    "start a shell in one: rrdma shell --private");
  const auto libraries = libraries_of(options.settings);
  if (!libraries) return complain(kEnvName, libraries.error().sentence, libraries.error().hint);
  Variables variables = variables_of(options.settings);
  variables.emplace_back("LD_PRELOAD", preload_with(*libraries, {}));
  Output output;
  if (options.unset) {
    output.write(unset_text());
  } else if (options.json) {
    nlohmann::ordered_json json;
    for (const auto& [name, value] : variables) json[name] = value;
    output.write(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } else {
    output.write("# for a whole shell: eval \"$(rrdma env)\"; and back: eval \"$(rrdma env --unset)\"\n");
    for (const auto& [name, value] : variables) output.write("export " + name + "=" + quoted(value) + "\n");
  }
  if (const int error = output.flush(); error != 0)
    return complain(kEnvName, formatted("cannot write the output: {}", std::strerror(error)), "");
  return kExitSuccess;
}

}  // namespace

void add_shell_command(CLI::App& app, Runner& chosen) {
  auto settings = std::make_shared<DeviceSettings>();
  CLI::App* shell = add_command(app, "shell", kRunning, "Start a shell in which every program has the device",
                                "rrdma shell\nrrdma shell --private --devices 2");
  add_device_options(*shell, *settings);
  shell->footer(
      "The variable SHELL selects the shell.\n"
      "Exit status: that of the shell, or 2 if rrdma failed.");
  shell->callback([&chosen, settings] { chosen = [settings] { return run_shell(*settings); }; });
}

void add_env_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<EnvOptions>();
  CLI::App* env =
      add_command(app, "env", kRunning, "Print the commands that enable the device in the current shell",
                  "eval \"$(rrdma env)\"\neval \"$(rrdma env --unset)\"");
  add_device_options(*env, options->settings);
  auto* unset = env->add_flag("-u,--unset", options->unset, "Print the commands that disable it again");
  env->add_flag("-j,--json", options->json, "Print the variables as JSON")->excludes(unset);
  env->footer(
      "Usage: eval \"$(rrdma env)\". Every program that the shell then starts has the device.\n"
      "Exit status: 0, or 2 on failure.");
  env->callback([&chosen, options] { chosen = [options] { return run_env(*options); }; });
}

}  // namespace rrdma::tools
