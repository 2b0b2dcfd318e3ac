// The `rrdma` command: selects the subcommand and reports errors on the command line with a hint.
// foo_command.cc implements the subcommands; commands.h explains how to add one.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "control/messages.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/interrupt.h"
#include "tools/run/library_file.h"
#include "tools/suggestion.h"
#include "tools/terminal.h"

namespace rrdma::tools {

// The subcommands of this build; CMakeLists.txt writes the list.
#define RRDMA_COMMAND(name) void add_##name##_command(CLI::App& app, Runner& chosen);
#include "tools/command_calls.inc"
#undef RRDMA_COMMAND

namespace {

// The name of the command with its subcommand: "rrdma decode".
std::string command_name(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? "rrdma" : "rrdma " + chosen.front()->get_name();
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

// The options of the selected command: "--netdev", "-j".
std::vector<std::string> option_names(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  std::vector<std::string> names;
  for (const CLI::Option* option : (chosen.empty() ? &app : chosen.front())->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Whether the command exists but is left out of this build (RRDMA_COMMANDS).
bool is_left_out(const std::string& word) {
  return std::string(" " RRDMA_COMMANDS_LEFT_OUT " ").find(" " + word + " ") != std::string::npos;
}

int complain_no_command(const CLI::App& app, const std::string& word) {
  if (is_left_out(word))
    return complain("rrdma", "this build has no command '" + word + "'", "`make build` builds every command");
  const std::string meant = closest_word(word, command_names(app));
  return complain("rrdma", "there is no command '" + printable(word) + "'",
                  meant.empty() ? "'rrdma help' lists the commands" : "did you mean '" + meant + "'?");
}

// The option closest to a misspelt one. Empty if none is close.
std::string meant_option(const CLI::App& app, const CLI::ParseError& error) {
  const std::string_view what = error.what();
  const std::size_t at = what.find("--");
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError) || at == std::string_view::npos)
    return "";
  const std::string_view word = what.substr(at, what.find_first_of(" ,=", at) - at);
  return closest_word(word, option_names(app));
}

int explain_usage(const CLI::App& app, const CLI::ParseError& error) {
  // --help and --version are also reported as exceptions, with status 0.
  if (error.get_exit_code() == 0) {
    app.exit(error, std::cout, std::cerr);
    return kExitSuccess;
  }
  const std::string name = command_name(app);
  if (app.get_subcommands().empty() && !app.remaining().empty() && app.remaining().front()[0] != '-')
    return complain_no_command(app, app.remaining().front());
  const std::string meant = meant_option(app, error);
  complain(name, error.what(),
           meant.empty() ? "'" + name + " --help' shows the usage" : "did you mean '" + meant + "'?");
  return app.got_subcommand("run") ? kExitRunFailure : kExitFailure;
}

void add_help_command(CLI::App& app, Runner& chosen) {
  auto wanted = std::make_shared<std::string>();
  CLI::App* help = add_command(app, "help", kAskingForHelp, "Show the usage of a command", "rrdma help run");
  help->add_option("COMMAND", *wanted, "A command from `rrdma help`");
  help->footer("Exit status: 0, or 2 if there is no such command.");
  help->callback([&app, &chosen, wanted] {
    chosen = [&app, wanted] {
      if (wanted->empty()) {
        // Print the help of `rrdma`: app.help() would print that of this command.
        std::cout << app.get_formatter()->make_help(&app, "rrdma", CLI::AppFormatMode::Normal);
        return kExitSuccess;
      }
      for (const CLI::App* command : app.get_subcommands(nullptr)) {
        if (command->get_name() != *wanted) continue;
        // A command of another program prints its own usage.
        if (command->get_help_ptr() == nullptr)
          ::execl("/proc/self/exe", "rrdma", wanted->c_str(), "--help", nullptr);
        std::cout << command->help("rrdma");
        return kExitSuccess;
      }
      return complain_no_command(app, *wanted);
    };
  });
}

// The version as one line of text, or as JSON with the facts that decide whether two installations work
// together.
std::string version_text(bool json) {
  if (!json) return "rrdma " RRDMA_VERSION;
  return nlohmann::ordered_json{{"name", "rrdma"},
                                {"version", RRDMA_VERSION},
                                {"daemon_protocol", control::kProtocolVersion},
                                {"library", find_library("librrdma.so.1")}}
      .dump();
}

void add_commands(CLI::App& app, Runner& chosen, std::string_view wanted) {
  // Programs start by `rrdma run`: the options of the other commands would take a third of its time.
  if (wanted == "run") return add_run_command(app, chosen);
#define RRDMA_COMMAND(name) add_##name##_command(app, chosen);
#include "tools/command_calls.inc"
#undef RRDMA_COMMAND
  add_help_command(app, chosen);
}

int run(int argc, char** argv) {
  CLI::App app("RRDMA, an RDMA NIC in software", "rrdma");
  bool wants_json = false;
  const CLI::Option* const json = app.add_flag("--json", wants_json, "With --version: print JSON");
  app.set_version_flag(
      "--version", [json] { return version_text(json->count() != 0); }, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this text and exit");
  app.require_subcommand(0, 1);

  Runner chosen;
  add_commands(app, chosen, argc > 1 ? argv[1] : "");
  try {
    std::vector<char*> arguments(argv, argv + argc);
    for (const ArgumentHook hook : argument_hooks()) hook(arguments);
    argc = static_cast<int>(arguments.size());
    arguments.push_back(nullptr);
    app.parse(drop_run_separator(app, argc, arguments.data()), arguments.data());
  } catch (const CLI::ParseError& error) {
    return explain_usage(app, error);
  }
  if (!chosen) {
    std::cerr << app.help();
    return kExitFailure;
  }
  return chosen();
}

}  // namespace

}  // namespace rrdma::tools

int main(int argc, char** argv) {
  int status = rrdma::tools::kExitFailure;
  try {
    status = rrdma::tools::run(argc, argv);
  } catch (const std::exception& error) {
    rrdma::tools::complain("rrdma", error.what(), "");
  }
  rrdma::tools::end_by_interrupt();
  return status;
}
