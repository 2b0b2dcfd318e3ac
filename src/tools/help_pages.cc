// The groups of subcommands in `rrdma --help`, and the examples at the end of the help of each subcommand.
#include <CLI/CLI.hpp>
#include <string>

#include "tools/commands.h"

namespace rrdma::tools {
namespace {

struct HelpPage {
  const char* command;
  const char* group;
  const char* examples;  // one for each line
};

constexpr const char* kRunning = "Run programs";
constexpr const char* kLooking = "Look at programs and devices";
constexpr const char* kPackets = "Capture and read packets";
constexpr const char* kTesting = "Test with faults and networks";
constexpr const char* kAskingForHelp = "Help";

constexpr HelpPage kPages[] = {
    {"run", kRunning,
     "rrdma run -- ib_write_bw\n"
     "rrdma run --explain --pcap run.pcapng -- ./server\n"
     "rrdma run --fault drop=0.01 -- ib_send_lat 10.9.0.1"},
    {"shell", kRunning, "rrdma shell\nrrdma shell --private --devices 2"},
    {"env", kRunning, "eval \"$(rrdma env)\"\neval \"$(rrdma env --unset)\""},
    {"rpc", kRunning, ""},
    {"stat", kLooking, "rrdma stat\nrrdma stat --watch 1\nrrdma stat --json"},
    {"top", kLooking, "rrdma top\nrrdma top --sort resent"},
    {"explain", kLooking,
     "rrdma explain\nrrdma explain --pid 4711 --lang zh\nrrdma explain IBV_WC_RETRY_EXC_ERR\nrrdma explain "
     "12"},
    {"doctor", kLooking, "rrdma doctor\nrrdma doctor --peer 10.9.0.2\nrrdma doctor --program ./server"},
    {"devices", kLooking, "rrdma devices\nrrdma devices --netdev eth0"},
    {"gids", kLooking, "rrdma gids\nrrdma gids rrdma0"},
    {"link", kLooking, "rrdma link show\nrrdma link add eth1"},
    {"capture", kPackets,
     "rrdma capture now.pcapng\nrrdma capture --seconds 5 now.pcapng\nrrdma capture --wireshark"},
    {"decode", kPackets,
     "rrdma decode now.pcapng\nrrdma decode now.pcapng errors\nrrdma decode -v now.pcapng"},
    {"inspect", kPackets, "rrdma inspect now.pcapng\nrrdma inspect a.pcapng b.pcapng\nrrdma inspect"},
    {"trace", kPackets, "rrdma trace --seconds 5 now.perfetto-trace"},
    {"fault", kTesting,
     "rrdma fault set verb=ibv_reg_mr:ENOMEM --count 1\nrrdma fault set net=drop=0.01\nrrdma fault list\n"
     "rrdma fault clear all"},
    {"lab", kTesting,
     "rrdma lab up star\nrrdma lab run h1 -- ib_write_bw\nrrdma lab run h2 -- ib_write_bw h1\nrrdma lab cut "
     "h1 s1"},
    {"sim", kTesting, "rrdma sim --seconds 1\nrrdma sim --scenario incast --cc dcqcn"},
    {"completion", kAskingForHelp, "source <(rrdma completion bash)\nrrdma completion fish | source"},
    {"help", kAskingForHelp, "rrdma help run"},
};

std::string with_examples(const CLI::App& command, const std::string& examples) {
  if (examples.empty()) return command.get_footer();
  std::string text = "Examples:\n";
  std::size_t at = 0;
  while (at <= examples.size()) {
    const std::size_t end = std::min(examples.find('\n', at), examples.size());
    text += "  " + examples.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return text + command.get_footer();
}

}  // namespace

void arrange_help(CLI::App& app) {
  for (const HelpPage& page : kPages) {
    for (CLI::App* command : app.get_subcommands(nullptr)) {  // this build may lack some
      if (command->get_name() != page.command) continue;
      command->group(page.group);
      command->footer(with_examples(*command, page.examples));
    }
  }
}

}  // namespace rrdma::tools
