// `rrdma run`: starts a program with librrdma.so.1 loaded into it. The settings travel as environment
// variables (nic/settings.h), and the program takes this process's place, so that signals, the terminal
// and the exit status are its own.
#include <net/if.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "link/fault_spec.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/run/library_file.h"
#include "tools/run/program_file.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

constexpr const char* kName = "rrdma run";
constexpr const char* kLibrary = "librrdma.so.1";
// The ones without a value.
constexpr const char* kLidOption = "--lid";
constexpr const char* kOnlyOption = "--only";
constexpr const char* kBesideOption = "--beside";
// The failure is the program's; kExitRunFailure is our own.
constexpr int kUnsuitable = 126;

struct RunOptions {
  std::string netdev;
  std::string link;
  std::string fault;
  std::string capture;
  std::string udp_checksum;
  std::string log;
  bool lid = false;
  bool only = false;
  bool beside = false;
  std::vector<std::string> command;
};

int refuse(int status, const std::string& sentence, const std::string& hint) {
  complain(kName, sentence, hint);
  return status;
}

// What a shell would have to be told about a program that cannot be reached; 0 if it can.
int check_program(const ProgramFile& program) {
  const std::string name = "'" + program.loaded + "'";
  if (program.other_machine) {
    return refuse(kUnsuitable, name + " is built for another architecture than " + kLibrary,
                  "run it with an RRDMA of its own architecture");
  }
  if (program.static_linked) {
    return refuse(kUnsuitable, name + " is statically linked, and no library can be loaded into it",
                  "link it dynamically against libibverbs");
  }
  if (program.musl) {
    return refuse(kUnsuitable, name + " is linked against musl, and the library against glibc",
                  "build the program on a system with glibc");
  }
  if (program.gains_privilege) {
    return refuse(
        kUnsuitable,
        name + " is setuid, setgid or has file capabilities, and the loader then ignores preloaded libraries",
        "run a copy of it without these rights: cp it somewhere of your own");
  }
  return 0;
}

// A sanitizer's runtime insists on being first; what the user preloads stays, behind us.
void set_preload(const ProgramFile& program, const std::string& library) {
  std::string list;
  for (const std::string& runtime : program.sanitizers) list += runtime + ":";
  list += library;
  if (const char* before = std::getenv("LD_PRELOAD"); before != nullptr && *before != 0)
    list += std::string(":") + before;
  ::setenv("LD_PRELOAD", list.c_str(), 1);
}

void set_variable(const char* name, const std::string& value) {
  if (!value.empty()) ::setenv(name, value.c_str(), 1);
}

int check_options(RunOptions& options) {
  if (!options.netdev.empty() && if_nametoindex(options.netdev.c_str()) == 0) {
    return refuse(kExitRunFailure, "there is no network interface '" + options.netdev + "'",
                  "`ip link` lists those that exist");
  }
  if (!options.fault.empty()) {
    if (auto parsed = link::parse_fault_spec(options.fault); !parsed)
      return refuse(kExitRunFailure, "--fault: " + parsed.error(), "");
  }
  if (!options.capture.empty()) {
    std::error_code error;
    options.capture = std::filesystem::absolute(options.capture, error);
    const std::filesystem::path folder = std::filesystem::path(options.capture).parent_path();
    if (::access(folder.c_str(), W_OK) != 0) {
      return refuse(kExitRunFailure,
                    "--pcap: cannot write to '" + folder.string() + "': " + std::strerror(errno), "");
    }
  }
  return 0;
}

int run_program(RunOptions& options) {
  if (const int status = check_options(options); status != 0) return status;
  const std::string library = find_library();
  if (library.empty()) {
    return refuse(
        kExitRunFailure,
        std::string(kLibrary) + " is not where this rrdma looks for it, in ../lib beside its own folder",
        "install RRDMA whole, or build the target `products`");
  }
  auto program = inspect_program(options.command.front());
  if (!program) return refuse(program.error().exit_status, program.error().sentence, "");
  if (const int status = check_program(*program); status != 0) return status;
  set_variable("RRDMA_NETDEV", options.netdev);
  set_variable("RRDMA_LINK", options.link);
  set_variable("RRDMA_FAULT", options.fault);
  set_variable("RRDMA_PCAP", options.capture);
  set_variable("RRDMA_UDP_CHECKSUM", options.udp_checksum);
  set_variable("RRDMA_LOG", options.log);
  set_variable("RRDMA_LID", options.lid ? "1" : "");
  set_variable("RRDMA_DEVICES", options.only ? "only" : options.beside ? "beside" : "");
  set_preload(*program, library);
  std::vector<char*> arguments;
  for (std::string& argument : options.command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  ::execv(program->path.c_str(), arguments.data());
  if (errno == ENOEXEC) {  // a script without a first line: what shells do
    arguments.insert(arguments.begin() + 1, program->path.data());
    static char shell[] = "/bin/sh";
    arguments[0] = shell;
    ::execv(shell, arguments.data());
  }
  return refuse(kUnsuitable, "'" + program->path + "' cannot be executed: " + std::strerror(errno), "");
}

}  // namespace

int drop_run_separator(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "run") != 0) return argc;
  const auto stands_alone = [](const char* option) {
    return std::strchr(option, '=') != nullptr || std::strcmp(option, kLidOption) == 0 ||
           std::strcmp(option, kOnlyOption) == 0 || std::strcmp(option, kBesideOption) == 0;
  };
  int i = 2;
  while (i < argc && std::strncmp(argv[i], "--", 2) == 0 && argv[i][2] != 0)
    i += stands_alone(argv[i]) ? 1 : 2;
  if (i >= argc || std::strcmp(argv[i], "--") != 0) return argc;
  std::copy(argv + i + 1, argv + argc + 1, argv + i);
  return argc - 1;
}

void add_run_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app.add_subcommand("run", "Run a program with an RDMA device made of software");
  run->add_option("--netdev", options->netdev,
                  "Network interface that the device sits on (default: that of the default route, else lo)")
      ->option_text("IF");
  run->add_option("--link", options->link, "How programs on this host reach each other (default: auto)")
      ->option_text("auto|shm|udp")
      ->check(CLI::IsMember({"auto", "shm", "udp"}));
  run->add_option("--fault", options->fault,
                  "Faults on purpose, such as 'drop=1%,dup=0.1%,delay=50us,seed=7'")
      ->option_text("SPEC");
  run->add_option("--pcap", options->capture, "Write every packet to this file (pcapng)")
      ->option_text("FILE");
  run->add_option("--udp-checksum", options->udp_checksum,
                  "UDP checksums: as cheap as possible, or always zero")
      ->option_text("auto|zero")
      ->check(CLI::IsMember({"auto", "zero"}));
  run->add_option("--log", options->log, "Print what the device has to say to standard error")
      ->option_text("error|info|debug")
      ->check(CLI::IsMember({"error", "info", "debug"}));
  run->add_flag(kLidOption, options->lid, "Give ports a LID, for programs that know no GIDs; at both ends");
  CLI::Option* only =
      run->add_flag(kOnlyOption, options->only,
                    "Hide the RDMA devices of the kernel (default: they come behind RRDMA's own)");
  run->add_flag(kBesideOption, options->beside, "List the RDMA devices of the kernel before RRDMA's own")
      ->excludes(only);
  // Everything from the program's name on is its own.
  run->prefix_command();
  run->callback([&chosen, options, run] {
    options->command = run->remaining();
    if (!options->command.empty() && options->command.front().starts_with('-')) {
      throw CLI::ExtrasError({options->command.front()});
    }
    if (options->command.empty()) throw CLI::RequiredError("PROGRAM");
    chosen = [options] { return run_program(*options); };
  });
  run->footer(
      "After the options comes the program with its arguments: rrdma run [OPTIONS] [--] PROGRAM [ARGS...]\n"
      "The exit status is the program's; 125: rrdma failed, 126: the program cannot be run, 127: it was not "
      "found.");
}

}  // namespace rrdma::tools
