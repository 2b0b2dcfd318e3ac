// `rrdma capture`: packets of running programs into a pcapng file, from now until Ctrl-C, for so many seconds or
// so many packets. The daemon passes one end of a socket on to the programs; they send whole pcapng blocks, and
// close their end when the last packet is on its way. The file is written here, with this user's rights.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>

#include "control/capture_messages.h"
#include "control/client/daemon_client.h"
#include "link/capture_sink.h"
#include "tools/capture/block_intake.h"
#include "tools/capture/limit_options.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/interrupt.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kName = "rrdma capture";
constexpr auto kWriteOut = std::chrono::milliseconds(3000);
constexpr int kSocketOctets = 4 * 1024 * 1024;

struct CaptureOptions {
  std::string file;
  std::uint32_t pid = 0;
  double seconds = 0;  // 0: until interrupted
  LimitWords limits;
};

enum class Ending : std::uint8_t { kWanted, kNobodyLeft, kFileFailed };

// Packets into the file until `end`, a signal, enough of them, or until nobody can send any more.
Ending take_packets(BlockIntake& intake, Clock::time_point end, bool draining) {
  while (!intake.complete()) {
    if (!draining && interrupted()) return Ending::kWanted;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return Ending::kWanted;
    pollfd source{intake.socket(), POLLIN, 0};
    if (::poll(&source, 1, static_cast<int>(std::min<std::int64_t>(left, 1000))) <= 0) {
      intake.write_out();
      continue;
    }
    if (!intake.take_all()) return Ending::kFileFailed;
    if (intake.ended()) return Ending::kNobodyLeft;
  }
  return Ending::kWanted;
}

std::string end_text(const CaptureOptions& options) {
  if (options.seconds > 0) return fmt::format("for {} s", options.seconds);
  if (options.limits.packets != 0) return fmt::format("until {} packets, or Ctrl-C", options.limits.packets);
  return "Ctrl-C ends it";
}

void tell_result(const CaptureOptions& options, const BlockIntake& intake) {
  const link::CaptureFile& file = intake.file();
  std::string text = fmt::format("{} packets, {} octets written", file.packets(), file.octets());
  if (file.files() > 1) text += fmt::format(" to {} files in turn", file.files());
  text += options.file == "-" ? "\n" : fmt::format("; `rrdma decode {}` shows them\n", options.file);
  if (intake.left_out() != 0)
    text += fmt::format(
        "{} packets were left out: this machine is too slow, or the disk full; -s 128 takes less\n",
        intake.left_out());
  std::cerr << text;
}

Result<std::unique_ptr<link::CaptureFile>, int> open_target(const std::string& path,
                                                            const link::CaptureLimits& limits) {
  if (path != "-") return link::CaptureFile::open(path, limits);
  OwnedFd output(::dup(STDOUT_FILENO));
  if (!output) return Failure{errno};
  return link::CaptureFile::adopt(std::move(output), limits);
}

int capture(const CaptureOptions& options, control::DaemonClient& daemon, BlockIntake& intake,
            OwnedFd senders) {
  const int fds[control::kCaptureFds] = {senders.get()};
  const control::StartCapture wanted{.pid = options.pid, .snap_octets = options.limits.snap_octets};
  const auto started =
      daemon.request<control::CaptureStarted>(wanted, control::DaemonClient::Repeat::kOnce, fds);
  if (!started)
    return complain(kName, started.error().sentence,
                    options.pid == 0 ? "" : "`rrdma stat` lists the programs that do");
  senders.reset();  // now those of the daemon and of the programs are all there are
  std::cerr << fmt::format("Capturing {} {} into {}; {}\n", started->programs,
                           started->programs == 1 ? "program" : "programs", options.file, end_text(options));
  const auto time = std::chrono::duration<double>(options.seconds > 0 ? options.seconds : 1e8);
  const Ending ending =
      take_packets(intake, Clock::now() + std::chrono::duration_cast<Clock::duration>(time), false);
  if (ending == Ending::kNobodyLeft)
    return complain(kName, "the RRDMA daemon has ended, and the capture with it", "start it again");
  auto stopped = daemon.request<control::Done>(control::StopCapture{}, control::DaemonClient::Repeat::kOnce);
  if (!stopped) return complain(kName, stopped.error().sentence, "");
  const bool all_said = ending == Ending::kFileFailed || intake.complete() ||
                        take_packets(intake, Clock::now() + kWriteOut, true) != Ending::kWanted ||
                        intake.complete();
  intake.write_out();
  tell_result(options, intake);
  if (ending == Ending::kFileFailed) return complain(kName, "the file could not be written to its end", "");
  if (!all_said)
    return complain(kName, "a program did not say that its last packets are written",
                    "is one of them stopped?");
  return kExitSuccess;
}

int run_capture(const CaptureOptions& options) {
  const auto limits = limits_of(options.limits);
  if (!limits) return complain(kName, limits.error(), "'rrdma capture --help' shows the usage");
  if (options.file == "-" && is_terminal(STDOUT_FILENO))
    return complain(kName, "packets are nothing for a terminal",
                    "name a file, or pipe it: rrdma capture - | tshark -i -");
  auto daemon = control::DaemonClient::connect_or_start({.role = control::Role::kTool, .may_start = false});
  if (!daemon) {
    if (daemon.error().error == ECONNREFUSED) {
      return complain(kName, "no program uses RRDMA in this network namespace now",
                      "to capture a program from its beginning: rrdma run --pcap FILE");
    }
    return complain(kName, daemon.error().sentence, "");
  }
  auto file = open_target(options.file, *limits);
  if (!file)
    return complain(kName, fmt::format("cannot write '{}': {}", options.file, std::strerror(file.error())),
                    "");
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return complain(kName, std::strerror(errno), "");
  OwnedFd senders(ends[1]);
  (void)::setsockopt(senders.get(), SOL_SOCKET, SO_SNDBUF, &kSocketOctets, sizeof kSocketOctets);
  BlockIntake intake(OwnedFd(ends[0]), std::move(*file));
  watch_interrupts();
  return capture(options, **daemon, intake, std::move(senders));
}

}  // namespace

void add_capture_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<CaptureOptions>();
  CLI::App* capture = app.add_subcommand("capture", "Write the packets of running programs to a file");
  capture
      ->add_option("FILE", options->file,
                   "A pcapng file, what it holds already stays in front; - for standard output")
      ->required();
  capture
      ->add_option("-p,--pid", options->pid,
                   "Only this process (default: all of this user, also those that start later)")
      ->option_text("PID")
      ->check(CLI::PositiveNumber);
  capture->add_option("--seconds", options->seconds, "Stop after so many seconds (default: at Ctrl-C)")
      ->option_text("N")
      ->check(CLI::Range(0.1, 1e6));
  add_limit_options(*capture, options->limits);
  capture->footer(
      "Between two programs that are both captured, each packet appears where it leaves and where it "
      "arrives.\n"
      "What had to be left out, because this machine was too slow for it, is counted and said.\n"
      "To capture a program from its first packet on: rrdma run --pcap FILE.\n"
      "Exit status: 0, or 2 on failure; Ctrl-C ends it by the signal, with the file complete.");
  capture->callback([&chosen, options] { chosen = [options] { return run_capture(*options); }; });
}

}  // namespace rrdma::tools
