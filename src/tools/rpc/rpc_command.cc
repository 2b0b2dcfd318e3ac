// `rrdma rpc`: executes the program rrdma-rpc, which alone needs rrdma::rpc and protobuf.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "host/own_executable.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

constexpr const char* kName = "rrdma rpc";

int hand_over(std::vector<std::string> words) {
  const auto beside = std::filesystem::path(host::own_executable()).parent_path() / "rrdma-rpc";
  words.insert(words.begin(), "rrdma rpc");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(beside.c_str(), arguments.data());
  ::execvp("rrdma-rpc", arguments.data());
  return complain(kName, std::string("the program rrdma-rpc cannot be started: ") + std::strerror(errno),
                  "it comes with the package librrdma-rpc-dev, or from `ninja rrdma-rpc` in a build folder");
}

}  // namespace

void add_rpc_command(CLI::App& app, Runner& chosen) {
  CLI::App* rpc = add_command(app, "rpc", kRunning, "Call, list and benchmark services of rrdma::rpc", "");
  // That program parses the remaining arguments.
  rpc->set_help_flag();
  rpc->prefix_command();
  rpc->footer("`rrdma rpc --help` shows the usage. Exit status: see rrdma-rpc(1).");
  rpc->callback([&chosen, rpc] { chosen = [rpc] { return hand_over(rpc->remaining()); }; });
}

}  // namespace rrdma::tools
