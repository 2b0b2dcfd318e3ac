// The subcommands of `rrdma`. Each is in its own file, foo_command.cc, which defines one function. The
// function adds the subcommand and its options to `app`. If the command line selects the subcommand, its
// callback sets `chosen`, which main() calls after it has validated all arguments. rrdma_commands() in
// CMakeLists.txt names the command and its file; main.cc calls the function from that list. The third place
// is the manual page, docs/man/rrdma-foo.1.
//
//   void add_foo_command(CLI::App& app, Runner& chosen) {
//     auto options = std::make_shared<FooOptions>();
//     CLI::App* foo = add_command(app, "foo", kLooking, "what it does, in one line", "rrdma foo rrdma0");
//     foo->add_option("NAME", options->name, "which one")->required();
//     foo->callback([&chosen, options] { chosen = [options] { return run_foo(*options); }; });
//   }
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

namespace rrdma::tools {

// Returns the exit status (exit_status.h).
using Runner = std::function<int()>;

// Called with the arguments before they are parsed; add_foo_command() may append to the list.
using ArgumentHook = void (*)(std::vector<char*>& arguments);
std::vector<ArgumentHook>& argument_hooks();

// The groups of `rrdma --help`.
inline constexpr const char* kRunning = "Run programs";
inline constexpr const char* kLooking = "Look at programs and devices";
inline constexpr const char* kPackets = "Capture and read packets";
inline constexpr const char* kTesting = "Test with faults and networks";
inline constexpr const char* kAskingForHelp = "Help";

// Adds a subcommand. Its help shows the examples, one for each line, before the footer.
CLI::App* add_command(CLI::App& app, const char* name, const char* group, const char* what,
                      std::string examples);
// Removes the `--` between the options of `rrdma run` and the program from the arguments. Otherwise CLI11
// would reject the program's options. Returns the new count.
int drop_run_separator(CLI::App& app, int argc, char** argv);

}  // namespace rrdma::tools
