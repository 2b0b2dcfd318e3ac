// `rrdma capture`: writes the packets of running programs to a pcapng file, or pipes them to Wireshark.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <memory>

#include "base/format.h"
#include "base/result_try.h"
#include "link/capture_sink.h"
#include "tools/capture/limit_options.h"
#include "tools/capture/recording.h"
#include "tools/capture/wireshark.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/interrupt.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

constexpr const char* kName = "rrdma capture";

struct CaptureOptions {
  std::string file;
  std::uint32_t pid = 0;
  double seconds = 0;  // 0: until interrupted
  bool wireshark = false;
  bool append = false;
  LimitWords limits;
};

void tell_result(const CaptureOptions& options, const RecordingResult& result) {
  std::string text = formatted("{} packets, {} bytes written", result.packets, result.octets);
  if (result.files > 1) text += formatted(" to {} files in turn", result.files);
  text += options.wireshark || options.file == "-"
              ? "\n"
              : formatted("; `rrdma decode {}` shows them\n", options.file);
  if (result.left_out != 0)
    text +=
        formatted("{} packets were left out: this machine is too slow, or the disk full; -s 128 takes less\n",
                  result.left_out);
  std::cerr << text;
}

Result<std::unique_ptr<link::CaptureFile>, std::string> open_target(const CaptureOptions& options,
                                                                    const link::CaptureLimits& limits) {
  if (options.wireshark) {
    auto viewer = start_wireshark();
    RRDMA_TRY(viewer);
    return link::CaptureFile::adopt(std::move(*viewer), limits);
  }
  if (options.file == "-") {
    OwnedFd output(::dup(STDOUT_FILENO));
    if (!output) return Failure{std::string(std::strerror(errno))};
    return link::CaptureFile::adopt(std::move(output), limits);
  }
  if (!options.append) {
    if (const int error = link::empty_capture_file(options.file); error != 0)
      return Failure{formatted("cannot write '{}': {}", options.file, std::strerror(error))};
  }
  auto file = link::CaptureFile::open(options.file, limits);
  if (!file) return Failure{formatted("cannot write '{}': {}", options.file, std::strerror(file.error()))};
  return std::move(*file);
}

int run_capture(const CaptureOptions& options) {
  const auto limits = limits_of(options.limits);
  if (!limits) return complain(kName, limits.error(), "'rrdma capture --help' shows the usage");
  if (options.wireshark != options.file.empty())
    return complain(kName,
                    options.wireshark ? "--wireshark takes the packets: there is no file beside it"
                                      : "there is no file to capture into",
                    "'rrdma capture --help' shows the usage");
  if (options.file == "-" && is_terminal(STDOUT_FILENO))
    return complain(kName, "packets are nothing for a terminal",
                    "name a file, or pipe it: rrdma capture - | tshark -i -");
  watch_interrupts();
  const RecordingOrder order{.command = kName,
                             .pid = options.pid,
                             .waits = true,
                             .seconds = options.seconds,
                             .packets = options.limits.packets,
                             .snap_octets = options.limits.snap_octets,
                             .into = options.wireshark ? "Wireshark" : options.file};
  const RecordingResult result = record(order, [&] { return open_target(options, *limits); });
  if (!result.began) return result.status;
  tell_result(options, result);
  // With Wireshark, a failed write means that the user closed it.
  if (result.file_failed && !options.wireshark)
    return complain(kName, "the file could not be written to its end", "");
  return result.status;
}

}  // namespace

void add_capture_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<CaptureOptions>();
  CLI::App* capture = add_command(
      app, "capture", kPackets, "Write the packets of running programs to a file",
      "rrdma capture now.pcapng\nrrdma capture --seconds 5 now.pcapng\nrrdma capture --wireshark");
  capture->add_option("FILE", options->file, "The pcapng file; - for standard output");
  capture->add_flag("--append", options->append, "Keep the packets that the file holds already");
  capture->add_flag("--wireshark", options->wireshark, "Start Wireshark and show the packets as they arrive");
  capture
      ->add_option("-p,--pid", options->pid,
                   "Only this process (default: all of this user, including later ones)")
      ->option_text("PID")
      ->check(CLI::PositiveNumber);
  capture->add_option("--seconds", options->seconds, "Stop after N seconds (default: at Ctrl-C)")
      ->option_text("N")
      ->check(CLI::Range(0.1, 1e6));
  add_limit_options(*capture, options->limits);
  capture->footer(
      "A packet between two captured programs appears twice: where it leaves and where it arrives.\n"
      "If the machine is too slow, packets are left out and counted.\n"
      "If no program uses RRDMA yet, the command waits for the first one.\n"
      "To capture from the first packet of a program: rrdma run --pcap FILE.\n"
      "Exit status: 0, or 2 on failure; Ctrl-C completes the file and ends the command by the signal.");
  capture->callback([&chosen, options] { chosen = [options] { return run_capture(*options); }; });
}

}  // namespace rrdma::tools
