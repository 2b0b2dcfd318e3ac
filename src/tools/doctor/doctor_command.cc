// `rrdma doctor`: checks everything that RRDMA depends on, and suggests a remedy for each problem. The checks
// are in doctor/.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "tools/commands.h"
#include "tools/doctor/finding.h"
#include "tools/exit_status.h"
#include "tools/terminal.h"
#include "tools/text_layout.h"

namespace rrdma::tools {
namespace {

constexpr const char* kName = "rrdma doctor";
constexpr std::size_t kColumnsMax = 100;

struct DoctorOptions {
  std::string netdev;
  std::vector<std::string> programs;
  std::vector<std::string> peers;
  bool nccl = false;
  bool json = false;
};

std::string_view health_name(Health health) {
  return health == Health::kOk ? "ok" : health == Health::kWarn ? "warn" : "bad";
}

std::string finding_text(const Finding& finding, const wire::Palette& palette, std::size_t columns) {
  const std::string_view colour = finding.health == Health::kOk     ? palette.good
                                  : finding.health == Health::kWarn ? palette.alert
                                                                    : palette.bad;
  // Colours take no columns, so wrap the plain text first and colour it afterwards.
  const std::string head = formatted("{:<6}", health_name(finding.health));
  const std::string indent(head.size(), ' ');
  std::string text = wrapped(finding.subject + ": " + finding.sentence, columns, head, indent);
  text.replace(0, head.size(), formatted("{}{}{}", colour, head, palette.reset));
  if (!finding.remedy.empty())
    text += wrapped("remedy: " + finding.remedy, columns, indent, indent + "        ");
  return text;
}

std::vector<Finding> examine(const DoctorOptions& options) {
  std::vector<Finding> findings = {check_kernel(),        check_library(),          check_io_uring(),
                                   check_segmentation(),  check_steering(),         check_receive_buffer(),
                                   check_send_buffer(),   check_descriptor_limit(), check_direct_access(),
                                   check_kernel_devices()};
  for (Finding& finding : check_port_and_daemon()) findings.push_back(std::move(finding));
  const auto devices = read_local_devices(options.netdev);
  if (devices) {
    for (const LocalDevice& device : *devices) {
      findings.push_back(check_addresses(device));
      findings.push_back(check_mtu(device));
    }
  } else {
    findings.push_back({Health::kBad, "interface", devices.error(),
                        "as root: ip link set lo up; or name one that exists: --netdev IF"});
  }
  if (options.nccl) {
    for (Finding& finding : check_nccl()) findings.push_back(std::move(finding));
  }
  for (const std::string& program : options.programs) findings.push_back(check_program(program));
  for (const std::string& peer : options.peers) findings.push_back(check_peer(peer));
  return findings;
}

int run_doctor(const DoctorOptions& options) {
  const wire::Palette palette = palette_for(STDOUT_FILENO, ColourChoice::kAuto);
  const std::size_t columns = std::min(kColumnsMax, terminal_columns(STDOUT_FILENO));
  Output output;
  auto list = nlohmann::ordered_json::array();
  std::size_t warnings = 0, bad = 0;
  for (const Finding& finding : examine(options)) {
    warnings += finding.health == Health::kWarn ? 1 : 0;
    bad += finding.health == Health::kBad ? 1 : 0;
    list.push_back({{"health", health_name(finding.health)},
                    {"check", finding.subject},
                    {"sentence", finding.sentence},
                    {"remedy", finding.remedy}});
    if (!options.json) output.write(finding_text(finding, palette, columns));
  }
  if (options.json) {
    output.write(list.dump(2) + "\n");
  } else {
    output.write(bad != 0        ? formatted("{} {} not work; {} could be better.\n", bad,
                                      bad == 1 ? "thing does" : "things do", warnings)
                 : warnings != 0 ? formatted("RRDMA works here; {} could be better.\n", warnings)
                                 : "All is well.\n");
  }
  if (const int error = output.flush(); error != 0)
    return complain(kName, formatted("cannot write the output: {}", std::strerror(error)), "");
  return bad == 0 ? kExitSuccess : kExitFoundFault;
}

}  // namespace

void add_doctor_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* doctor =
      add_command(app, "doctor", kLooking, "Check this machine, a program or a peer, and suggest remedies",
                  "rrdma doctor\nrrdma doctor --peer 10.9.0.2\nrrdma doctor --program ./server");
  doctor
      ->add_option("--netdev", options->netdev,
                   "Network interface of the device (default: same as `rrdma run`)")
      ->option_text("IF");
  doctor->add_option("--program", options->programs, "Check whether `rrdma run` supports this program")
      ->option_text("FILE");
  doctor->add_option("--peer", options->peers, "Check whether this host answers on UDP port 4791")
      ->option_text("ADDRESS");
  doctor->add_flag("--nccl", options->nccl, "Check the settings that NCCL reads from the environment");
  doctor->add_flag("-j,--json", options->json, "Print JSON");
  doctor->footer(
      "Each line is ok, warn (works with limits) or bad; a remedy follows each problem.\n"
      "Static, setuid and musl programs are not supported: no library can be preloaded into them.\n"
      "Exit status: 0, or 1 if a check is bad.");
  doctor->callback([&chosen, options] { chosen = [options] { return run_doctor(*options); }; });
}

}  // namespace rrdma::tools
