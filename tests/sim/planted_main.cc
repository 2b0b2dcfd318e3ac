// `rrdma sim` with a planted bug, to test its output after a violation. PLANTED_BUG is the number of the bug.
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
