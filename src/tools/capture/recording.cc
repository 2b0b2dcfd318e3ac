#include "tools/capture/recording.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>

#include "base/format.h"
#include "control/capture_messages.h"
#include "control/client/daemon_client.h"
#include "tools/capture/block_intake.h"
#include "tools/exit_status.h"
#include "tools/interrupt.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWriteOut = std::chrono::milliseconds(3000);
constexpr int kSocketOctets = 4 * 1024 * 1024;

enum class Ending : std::uint8_t { kWanted, kNobodyLeft, kFileFailed };

// Writes packets to the file until `end`, a signal, the packet limit, or the end of all senders.
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

std::string end_text(const RecordingOrder& order) {
  if (order.seconds > 0) return formatted("for {} s", order.seconds);
  if (order.packets != 0) return formatted("until {} packets, or Ctrl-C", order.packets);
  return "Ctrl-C ends it";
}

RecordingResult failed(const RecordingOrder& order, const std::string& sentence, const std::string& hint) {
  return {.status = complain(order.command, sentence, hint)};
}

RecordingResult record_from(control::DaemonClient& daemon, const RecordingOrder& order, BlockIntake& intake,
                            OwnedFd senders) {
  const int fds[control::kCaptureFds] = {senders.get()};
  const control::StartCapture wanted{.pid = order.pid, .snap_octets = order.snap_octets};
  const auto started =
      daemon.request<control::CaptureStarted>(wanted, control::DaemonClient::Repeat::kOnce, fds);
  if (!started)
    return failed(order, started.error().sentence,
                  order.pid == 0 ? "" : "`rrdma stat` lists the programs that do");
  senders.reset();  // from now on only the daemon and the programs hold senders
  if (started->programs == 0) {
    std::cerr << formatted("Waiting for the first program, to capture it into {}; {}\n", order.into,
                           end_text(order));
  } else {
    std::cerr << formatted("Capturing {} {} into {}; {}\n", started->programs,
                           started->programs == 1 ? "program" : "programs", order.into, end_text(order));
  }
  const auto time = std::chrono::duration<double>(order.seconds > 0 ? order.seconds : 1e8);
  const Ending ending =
      take_packets(intake, Clock::now() + std::chrono::duration_cast<Clock::duration>(time), false);
  if (ending == Ending::kNobodyLeft)
    return failed(order, "the RRDMA daemon has ended, and the capture with it", "start it again");
  auto stopped = daemon.request<control::Done>(control::StopCapture{}, control::DaemonClient::Repeat::kOnce);
  if (!stopped) return failed(order, stopped.error().sentence, "");
  const bool all_said = ending == Ending::kFileFailed || intake.complete() ||
                        take_packets(intake, Clock::now() + kWriteOut, true) != Ending::kWanted ||
                        intake.complete();
  intake.write_out();
  RecordingResult result{.began = true,
                         .file_failed = ending == Ending::kFileFailed,
                         .packets = intake.file().packets(),
                         .octets = intake.file().octets(),
                         .files = intake.file().files(),
                         .left_out = intake.left_out()};
  if (!all_said)
    result.status = complain(order.command, "a program did not say that its last packets are written",
                             "is one of them stopped?");
  return result;
}

}  // namespace

RecordingResult record(const RecordingOrder& order, const FileOpener& open_file) {
  // Without programs there is no daemon: start one, and capture those that come. A process that is named must
  // exist.
  auto daemon = control::DaemonClient::connect_or_start(
      {.role = control::Role::kTool, .may_start = order.pid == 0 && order.waits});
  if (!daemon) {
    if (daemon.error().error == ECONNREFUSED)
      return failed(order, "no program uses RRDMA in this network namespace now",
                    "to capture a program from its beginning: rrdma run --pcap FILE");
    return failed(order, daemon.error().sentence, "");
  }
  auto file = open_file();
  if (!file) return failed(order, file.error(), "");
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return failed(order, std::strerror(errno), "");
  OwnedFd senders(ends[1]);
  (void)::setsockopt(senders.get(), SOL_SOCKET, SO_SNDBUF, &kSocketOctets, sizeof kSocketOctets);
  BlockIntake intake(OwnedFd(ends[0]), std::move(*file));
  return record_from(**daemon, order, intake, std::move(senders));
}

}  // namespace rrdma::tools
