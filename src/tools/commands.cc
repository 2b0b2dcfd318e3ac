// Adds subcommands to `rrdma`, in the same form for all.
#include "tools/commands.h"

namespace rrdma::tools {

CLI::App* add_command(CLI::App& app, const char* name, const char* group, const char* what,
                      std::string examples) {
  CLI::App* command = app.add_subcommand(name, what);
  command->group(group);
  if (examples.empty()) return command;
  for (std::size_t at = examples.find('\n'); at != std::string::npos; at = examples.find('\n', at + 1))
    examples.insert(at + 1, "  ");
  command->footer([examples] { return "Examples:\n  " + examples; });
  return command;
}

std::vector<ArgumentHook>& argument_hooks() {
  static std::vector<ArgumentHook> hooks;
  return hooks;
}

}  // namespace rrdma::tools
