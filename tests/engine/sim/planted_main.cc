// `rrdma sim` with a planted bug, to test its output after a violation. PLANTED_BUG is the name of the bug.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string_view>

#include "mutants/planted_bug.h"
#include "tools/commands.h"

namespace rrdma::tools {
void add_sim_command(CLI::App& app, Runner& chosen);
}

int main(int argc, char** argv) {
  using namespace rrdma::transport;
  if (const char* name = std::getenv("PLANTED_BUG"); name != nullptr) {
    for (const Mutant& mutant : kMutants)
      if (std::string_view(mutant.name) == name) planted_bug = mutant.bug;
    if (planted_bug == PlantedBug::kNone) return 2;
  }
  CLI::App app("planted");
  rrdma::tools::Runner chosen;
  rrdma::tools::add_sim_command(app, chosen);
  CLI11_PARSE(app, argc, argv);
  return chosen ? chosen() : 2;
}
