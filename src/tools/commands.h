// The subcommands of `rrdma`. Each lives in a file of its own, foo_command.cc, which defines one function:
// it adds the subcommand with its options to `app` and sees to it that, when it is the one on the command
// line, `chosen` becomes what runs it. main() calls `chosen` after all arguments were found right.
//
//   void add_foo_command(CLI::App& app, Runner& chosen) {
//     auto options = std::make_shared<FooOptions>();
//     CLI::App* foo = app.add_subcommand("foo", "what it does, in one line");
//     foo->add_option("NAME", options->name, "which one")->required();
//     foo->callback([&chosen, options] { chosen = [options] { return run_foo(*options); }; });
//   }
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <vector>

namespace rrdma::tools {

// Returns the exit status (exit_status.h).
using Runner = std::function<int()>;

// Called with the arguments before they are parsed; add_foo_command() may append to the list.
using ArgumentHook = void (*)(std::vector<char*>& arguments);
std::vector<ArgumentHook>& argument_hooks();

void add_capture_command(CLI::App& app, Runner& chosen);
void add_decode_command(CLI::App& app, Runner& chosen);
void add_devices_command(CLI::App& app, Runner& chosen);
void add_doctor_command(CLI::App& app, Runner& chosen);
void add_env_command(CLI::App& app, Runner& chosen);
void add_fault_command(CLI::App& app, Runner& chosen);
void add_explain_command(CLI::App& app, Runner& chosen);
void add_inspect_command(CLI::App& app, Runner& chosen);
void add_gids_command(CLI::App& app, Runner& chosen);
void add_shell_command(CLI::App& app, Runner& chosen);
void add_sim_command(CLI::App& app, Runner& chosen);
void add_stat_command(CLI::App& app, Runner& chosen);
void add_trace_command(CLI::App& app, Runner& chosen);
void add_top_command(CLI::App& app, Runner& chosen);
void add_lab_command(CLI::App& app, Runner& chosen);
void add_link_command(CLI::App& app, Runner& chosen);
void add_rpc_command(CLI::App& app, Runner& chosen);
void add_run_command(CLI::App& app, Runner& chosen);
// Takes the `--` between the options of `rrdma run` and the program out of the arguments: CLI11 would make
// the program's options its own errors. Returns the new count.
int drop_run_separator(CLI::App& app, int argc, char** argv);

}  // namespace rrdma::tools
