// rrdmad: the daemon of RRDMA. Reads its options, becomes a background process, connects the parts and runs
// the loop. server.h and the subsystems serve the programs.
#include <getopt.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "base/entropy.h"
#include "control/identity.h"
#include "control/names.h"
#include "daemon/captures.h"
#include "daemon/fault_rules.h"
#include "daemon/last_answers.h"
#include "daemon/log.h"
#include "daemon/peers.h"
#include "daemon/qp1/captured_mads.h"
#include "daemon/qp1/cm_service.h"
#include "daemon/qp1/injected_mads.h"
#include "daemon/qp1/kernel_mads.h"
#include "daemon/qp1/mad_port.h"
#include "daemon/qp1/recognition.h"
#include "daemon/registry/device_totals.h"
#include "daemon/registry/registry.h"
#include "daemon/server.h"
#include "daemon/slots/keeper.h"
#include "daemon/slots/multicast.h"
#include "daemon/slots/relay.h"
#include "daemon/slots/slots.h"
#include "kernel/door/serve.h"

#ifndef RRDMA_VERSION
#define RRDMA_VERSION "unknown"
#endif

namespace rrdma::daemon {
namespace {

constexpr timespec kLockPause = {.tv_sec = 1, .tv_nsec = 0};
constexpr rlim_t kDescriptorsWanted = 65536;

struct Options {
  bool system = false;
  bool trust_users = false;
  bool stay = false;
  bool autostarted = false;
  bool strict = false;
  std::string kernel_device;  // empty: the ordinary daemon
  double linger_s = 5;
};

// Leaves the environment of the program that started the daemon. Returns the lock that keeps other programs
// from starting one, to be held until this daemon listens.
OwnedFd leave_surroundings() {
  OwnedFd start_lock;
  if (raw::fcntl(control::kStartLockNumber, F_SETFD, FD_CLOEXEC) == 0)
    start_lock = OwnedFd(control::kStartLockNumber);
  (void)raw::close_range(control::kStartLockNumber + (start_lock ? 1u : 0u), ~0u, 0);
  (void)!::chdir("/");
  ::umask(077);
  return start_lock;
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kDescriptorsWanted));
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

// Signals arrive as readable events; children (the keeper) are not waited for.
OwnedFd signal_events() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_IGN);
  sigset_t ends;
  sigemptyset(&ends);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ends, signal);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  return OwnedFd(::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
}

// Takes the names of this daemon: its paths, and its abstract name unless that is taken. Nothing if another
// daemon of this user is already running, or if no name is available.
std::optional<control::HeldPaths> hold_names(bool is_system) {
  auto held = is_system ? control::hold_system_path() : control::hold_user_paths();
  OwnedFd named;
  if (held && !is_system) {
    const std::string name = control::user_name(::geteuid());
    named = control::listen_on(name);
    const OwnedFd other = named ? OwnedFd() : control::connect_to(name);
    if (other && control::is_own_user(control::peer_identity(other.get()))) held.reset();
  }
  if (!held) {
    log_line("another daemon is running here; this one is not needed.");
    return std::nullopt;
  }
  if (named) {
    held->listeners.push_back(std::move(named));
  } else if (!is_system) {
    log_line("the abstract name of this user's daemon is held by a stranger; going on without it.");
  }
  if (held->listeners.empty() && !is_system) {
    log_line(
        "there is no place where programs could find this daemon: neither /run/user nor /tmp is writable.");
    return std::nullopt;
  }
  return held;
}

// A system daemon is useless without the port: it waits until a user's daemon has exited.
void wait_for_port(Network& network) {
  bool said = false;
  while (!network.is_up() && network.listener() < 0 && network.settled(EventLoop::now())) {
    if (!said) log_line(network.state().reason + " Waiting for it to end.");
    said = true;
    (void)raw::ppoll(nullptr, 0, &kLockPause);
    network.open(EventLoop::now());
  }
}

void open_network(Network& network, bool is_system) {
  if (OwnedFd parking = stored_parking()) (void)network.adopt(std::move(parking));
  if (network.refused_group()) {
    log_line(
        "the sockets of UDP port 4791 are in the hands of programs that were started under --trust-users: "
        "end those "
        "programs, and this daemon takes the port.");
    drop_stored_parking();
  }
  if (!network.is_up()) network.open(EventLoop::now());
  if (is_system) wait_for_port(network);
  if (!network.state().reason.empty() && network.settled(EventLoop::now()))
    log_line(network.state().reason + " " + network.state().remedy);
}

ServerSettings settings_of(const Options& options) {
  return {.is_system = options.system,
          .trusts_users = options.trust_users,
          .stays = options.stay || options.system,
          .linger = nanoseconds(static_cast<std::int64_t>(options.linger_s * 1e9))};
}

int run(const Options& options) {
  OwnedFd start_lock = options.autostarted ? leave_surroundings() : OwnedFd();
  if (const char* path = std::getenv("RRDMA_DAEMON_LOG"); path != nullptr) log_to_file(path);
  if (options.system && ::geteuid() != 0) {
    log_line("--system serves every user, and programs accept that from root alone: start it as root.");
    return 1;
  }
  raise_descriptor_limit();
  const OwnedFd signals = signal_events();
  std::optional<control::HeldPaths> names;
  if (!options.system && !(names = hold_names(false))) return 0;
  start_lock.reset();
  KeySource keys = system_keys();
  Counters counters;
  EventLoop loop;
  const bool relays = options.system && !options.trust_users;
  Network network(counters, keys, relays);
  open_network(network, options.system);
  // Programs must not find a system daemon that waits for the port.
  if (options.system && !(names = hold_names(true))) return 0;

  Server server(settings_of(options), loop, network, counters, keys);
  Captures captures(server);
  FaultRules fault_rules(server);
  std::optional<Relay> relay;
  if (relays) relay.emplace();
  Slots slots(server, network, counters, keys, relays ? &*relay : nullptr);
  Peers peers(slots, counters);
  Registry registry(server, slots, network, counters);
  DeviceTotals device_totals(server);
  Multicast multicast(slots, network, counters);
  MadPort qp1(loop, network, counters, system_entropy());
  ConnectionService connections(qp1, slots, counters, system_keys());
  const InjectedMads injected_mads(qp1, connections, fault_rules);
  KernelMads kernel_mads(qp1, connections, counters);
  const CapturedMads captured_mads(qp1, connections, captures);
  Recognition recognition(qp1, counters, options.strict, system_keys());
  LastAnswers last_answers(slots, network, counters);
  // Peers must get a dead program's last answers before they learn of its death.
  const std::initializer_list<Subsystem*> subsystems = {
      &last_answers,  &captures,  &fault_rules, &slots,       &peers,       &registry,
      &device_totals, &multicast, &connections, &recognition, &kernel_mads, &qp1};
  for (Subsystem* subsystem : subsystems) server.add(*subsystem);
  if (options.system) {
    server.on_network_up([&] {
      if (!store_parking(network.parking_end()) && !network.took_over()) start_keeper(network.parking_end());
    });
  }
  for (OwnedFd& listener : names->listeners) server.serve(std::move(listener));
  loop.watch(signals.get(), EPOLLIN, [&](std::uint32_t) { server.stop(); });
  announce_ready();
  log_line("ready" + std::string(network.took_over() ? ", with the sockets of an earlier daemon." : "."));
  server.run();
  server.retire_keepers();
  for (const std::string& path : names->paths) (void)::unlink(path.c_str());
  return 0;
}

constexpr double kLingerMax_s = 86400;

constexpr const char* kHelp =
    "rrdmad holds UDP port 4791 for the RDMA programs of a network namespace. Programs start it "
    "automatically.\n"
    "Usage: rrdmad [OPTIONS]\n"
    "\n"
    "Options:\n"
    "  -h, --help        print this help and exit\n"
    "      --version     print the version and exit\n"
    "      --system      serve all users of this network namespace (requires root); implies --stay\n"
    "      --trust-users with --system: give the programs of every user sockets of the port; faster, but "
    "each of\n"
    "                    them can read and block the packets of all others\n"
    "      --stay        keep running after the last program has exited\n"
    "      --linger SECONDS\n"
    "                    keep running this long after the last program, 0 to 86400 (default 5; environment:\n"
    "                    RRDMA_DAEMON_LINGER)\n"
    "      --kernel DEVICE\n"
    "                    serve DEVICE of the kernel module rrdma.ko instead (requires root; docs/kernel.md)\n"
    "      --strict      do not ask other hosts whether they are RRDMA, and do not answer when they ask\n";

// The exit status of a command line that is not understood.
int refuse(const std::string& sentence) {
  std::fprintf(stderr, "rrdmad: %s\nRun rrdmad --help for the options.\n", sentence.c_str());
  return 2;
}

bool read_linger(const char* text, double& seconds) {
  char* end = nullptr;
  errno = 0;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || errno != 0 || !(value >= 0 && value <= kLingerMax_s)) return false;
  seconds = value;
  return true;
}

// Reads the command line and the environment. The exit status if the daemon must not run.
std::optional<int> read_options(int argc, char** argv, Options& options) {
  enum Choice {
    kHelpChoice = 'h',
    kVersion = 256,
    kSystem,
    kTrustUsers,
    kStay,
    kLinger,
    kStrict,
    kKernel,
    kAutostarted
  };
  constexpr option kChoices[] = {
      {"help", no_argument, nullptr, kHelpChoice},
      {"version", no_argument, nullptr, kVersion},
      {"system", no_argument, nullptr, kSystem},
      {"trust-users", no_argument, nullptr, kTrustUsers},
      {"stay", no_argument, nullptr, kStay},
      {"linger", required_argument, nullptr, kLinger},
      {"strict", no_argument, nullptr, kStrict},
      {"kernel", required_argument, nullptr, kKernel},
      {"autostarted", no_argument, nullptr, kAutostarted},
      {nullptr, 0, nullptr, 0},
  };
  const char* linger = std::getenv("RRDMA_DAEMON_LINGER");
  if (linger != nullptr && *linger != '\0' && !read_linger(linger, options.linger_s))
    return refuse("RRDMA_DAEMON_LINGER=" + std::string(linger) +
                  " is not a number of seconds from 0 to 86400.");
  for (int choice; (choice = ::getopt_long(argc, argv, "h", kChoices, nullptr)) != -1;) {
    switch (choice) {
      case kHelpChoice: std::fputs(kHelp, stdout); return 0;
      case kVersion: std::puts(RRDMA_VERSION); return 0;
      case kSystem: options.system = true; break;
      case kTrustUsers: options.trust_users = true; break;
      case kStay: options.stay = true; break;
      case kStrict: options.strict = true; break;
      case kKernel: options.kernel_device = optarg; break;
      case kAutostarted: options.autostarted = true; break;
      case kLinger:
        if (!read_linger(optarg, options.linger_s))
          return refuse("--linger takes a number of seconds from 0 to 86400, not " + std::string(optarg) +
                        ".");
        break;
      default: return 2;  // getopt_long named the option
    }
  }
  if (optind < argc) return refuse(std::string(argv[optind]) + " is not an option.");
  if (options.trust_users && !options.system) return refuse("--trust-users needs --system.");
  return std::nullopt;
}

}  // namespace
}  // namespace rrdma::daemon

int main(int argc, char** argv) {
  rrdma::daemon::Options options;
  if (const auto status = rrdma::daemon::read_options(argc, argv, options)) return *status;
  if (!options.kernel_device.empty()) return rrdma::kernel::serve(options.kernel_device);
  return rrdma::daemon::run(options);
}
