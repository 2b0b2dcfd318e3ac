// `rrdma capture`: packets of running programs into a pcapng file, from now until Ctrl-C or for so many
// seconds. The file is opened here, with this user's rights; the daemon passes it on to the programs,
// which write by themselves and close their end of a pipe when the last packet is in the file.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
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
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/interrupt.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kName = "rrdma capture";
constexpr int kWriteOutMs = 3000;

struct CaptureOptions {
  std::string file;
  std::uint32_t pid = 0;
  double seconds = 0;  // 0: until interrupted
};

struct EndMark {
  OwnedFd watched;
  OwnedFd held;
};

// True when all holders have closed their end, before the time is over or a signal came.
bool ended_within(const OwnedFd& watched, int timeout_ms) {
  pollfd end{watched.get(), POLLIN, 0};
  return ::poll(&end, 1, timeout_ms) > 0;
}

// Until the time is over, a signal, or the end of the daemon. False: the daemon ended.
bool wait_for_end(const CaptureOptions& options, const OwnedFd& watched) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(options.seconds));
  while (!interrupted()) {
    int timeout_ms = -1;
    if (options.seconds > 0) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      if (left <= 0) return true;
      timeout_ms = static_cast<int>(std::min<std::int64_t>(left, 3'600'000));
    }
    if (ended_within(watched, timeout_ms)) return false;
  }
  return true;
}

std::uint64_t size_of(const OwnedFd& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

int run_capture(const CaptureOptions& options) {
  auto daemon = control::DaemonClient::connect_or_start({.role = control::Role::kTool, .may_start = false});
  if (!daemon) {
    if (daemon.error().error == ECONNREFUSED) {
      return complain(kName, "no program uses RRDMA in this network namespace now",
                      "to capture a program from its beginning: rrdma run --pcap FILE");
    }
    return complain(kName, daemon.error().sentence, "");
  }
  // Until the daemon has agreed, what the file held stays.
  OwnedFd file(::open(options.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file)
    return complain(kName, fmt::format("cannot write '{}': {}", options.file, std::strerror(errno)), "");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return complain(kName, std::strerror(errno), "");
  EndMark mark{OwnedFd(ends[0]), OwnedFd(ends[1])};
  watch_interrupts();
  const std::uint64_t before = size_of(file);
  const int fds[control::kCaptureFds] = {file.get(), mark.held.get()};
  const auto started = (*daemon)->request<control::CaptureStarted>(control::StartCapture{.pid = options.pid},
                                                                   control::DaemonClient::Repeat::kOnce, fds);
  if (!started)
    return complain(kName, started.error().sentence,
                    options.pid == 0 ? "" : "`rrdma stat` lists the programs that do");
  mark.held.reset();
  std::cerr << fmt::format("Capturing {} {} into {}; {}\n", started->programs,
                           started->programs == 1 ? "program" : "programs", options.file,
                           options.seconds > 0 ? fmt::format("for {} s", options.seconds) : "Ctrl-C ends it");
  if (!wait_for_end(options, mark.watched))
    return complain(kName, "the RRDMA daemon has ended, and the capture with it", "start it again");
  auto stopped =
      (*daemon)->request<control::Done>(control::StopCapture{}, control::DaemonClient::Repeat::kOnce);
  if (!stopped) return complain(kName, stopped.error().sentence, "");
  const auto patience = Clock::now() + std::chrono::milliseconds(kWriteOutMs);
  bool complete = false;
  while (!complete && Clock::now() < patience) {
    complete = ended_within(
        mark.watched,
        static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(patience - Clock::now()).count()));
  }
  std::cerr << fmt::format("{} octets written; `rrdma decode {}` shows them\n", size_of(file) - before,
                           options.file);
  if (!complete)
    return complain(kName, "a program did not say that its last packets are written",
                    "is one of them stopped?");
  return kExitSuccess;
}

}  // namespace

void add_capture_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<CaptureOptions>();
  CLI::App* capture = app.add_subcommand("capture", "Write the packets of running programs to a file");
  capture->add_option("FILE", options->file, "A pcapng file; what it holds already stays in front")
      ->required();
  capture
      ->add_option("-p,--pid", options->pid,
                   "Only this process (default: all of this user, also those that start later)")
      ->option_text("PID")
      ->check(CLI::PositiveNumber);
  capture->add_option("-s,--seconds", options->seconds, "Stop after so many seconds (default: at Ctrl-C)")
      ->option_text("N")
      ->check(CLI::Range(0.1, 1e6));
  capture->footer(
      "Between two programs that are both captured, each packet appears where it leaves and where it "
      "arrives.\n"
      "To capture a program from its first packet on: rrdma run --pcap FILE.\n"
      "Exit status: 0, or 2 on failure; Ctrl-C ends it by the signal, with the file complete.");
  capture->callback([&chosen, options] { chosen = [options] { return run_capture(*options); }; });
}

}  // namespace rrdma::tools
