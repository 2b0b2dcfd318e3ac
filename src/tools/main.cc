// The `rrdma` command: picks the subcommand and turns mistakes on the command line into one sentence
// and a hint. What the subcommands do is in foo_command.cc; see commands.h for how one is added.
#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>

#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/interrupt.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

// The name of what is being run, with its subcommand: "rrdma decode".
std::string command_name(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? "rrdma" : "rrdma " + chosen.front()->get_name();
}

int explain_usage(const CLI::App& app, const CLI::ParseError& error) {
  // --help and --version also arrive as an exception, with status 0.
  if (error.get_exit_code() == 0) {
    app.exit(error, std::cout, std::cerr);
    return kExitSuccess;
  }
  const std::string name = command_name(app);
  const bool no_command =
      app.get_subcommands().empty() && !app.remaining().empty() && app.remaining().front()[0] != '-';
  complain(name, no_command ? "there is no command '" + app.remaining().front() + "'" : error.what(),
           "'" + name + " --help' shows the usage");
  return app.got_subcommand("run") ? kExitRunFailure : kExitFailure;
}

int run(int argc, char** argv) {
  CLI::App app("RRDMA, an RDMA NIC made of software", "rrdma");
  app.set_version_flag("--version", "rrdma " RRDMA_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this text and exit");
  app.require_subcommand(0, 1);

  Runner chosen;
  add_decode_command(app, chosen);
  add_run_command(app, chosen);
  add_devices_command(app, chosen);
  add_gids_command(app, chosen);
  add_link_command(app, chosen);
  add_stat_command(app, chosen);
  add_top_command(app, chosen);
  add_capture_command(app, chosen);
  add_explain_command(app, chosen);
  add_doctor_command(app, chosen);
  add_sim_command(app, chosen);
  try {
    app.parse(drop_run_separator(argc, argv), argv);
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
