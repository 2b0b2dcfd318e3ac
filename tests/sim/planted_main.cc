// `rrdma sim` with an engine that is broken on purpose: what is said when a promise is broken can only be
// tested where one is. PLANTED_BUG names the number of the bug.
#include <CLI/CLI.hpp>
#include <cstdlib>

#include "tools/commands.h"
#include "transport/planted_bug.h"

int main(int argc, char** argv) {
  const char* bug = std::getenv("PLANTED_BUG");
  if (bug != nullptr)
    rrdma::transport::planted_bug = static_cast<rrdma::transport::PlantedBug>(std::atoi(bug));
  CLI::App app("planted");
  rrdma::tools::Runner chosen;
  rrdma::tools::add_sim_command(app, chosen);
  CLI11_PARSE(app, argc, argv);
  return chosen ? chosen() : 2;
}
