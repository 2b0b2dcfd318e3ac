// `rrdma trace`: records running programs as a trace for Perfetto. It captures packets like `rrdma capture`,
// into an unnamed file, and converts them like `rrdma inspect --perfetto`.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "base/format.h"
#include "base/owned_fd.h"
#include "inspect/analysis.h"
#include "inspect/perfetto.h"
#include "tools/capture/recording.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/file_octets.h"
#include "tools/interrupt.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

constexpr const char* kName = "rrdma trace";

struct TraceOptions {
  std::string file;
  std::uint32_t pid = 0;
  double seconds = 0;
  std::uint64_t packets = 1'000'000;
};

Result<OwnedFd, std::string> nameless_file() {
  std::error_code ignored;
  const std::string folder = std::filesystem::temp_directory_path(ignored).string();
  OwnedFd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return Failure{formatted("no room for packets in {}: {}", folder, std::strerror(errno))};
  return file;
}

int write_trace(const TraceOptions& options, int packets) {
  auto octets = FileOctets::read(formatted("/proc/self/fd/{}", packets));
  if (!octets) return complain(kName, octets.error(), "");
  const CaptureInput input{"the recording", octets->octets()};
  const Analysis analysis = analyse({&input, 1}, options.packets);
  const std::string trace = perfetto_trace(analysis);
  std::ofstream file(options.file, std::ios::binary | std::ios::trunc);
  file << trace;
  file.close();
  if (!file)
    return complain(kName,
                    formatted("{}: cannot write it: {}", printable(options.file), std::strerror(errno)), "");
  std::cerr << formatted("{} packets of {} connections; open {} with https://ui.perfetto.dev\n",
                         analysis.columns.size(), analysis.connections.size(), options.file);
  return kExitSuccess;
}

int run_trace(const TraceOptions& options) {
  auto packets = nameless_file();
  if (!packets) return complain(kName, packets.error(), "set TMPDIR to a folder on a disk");
  watch_interrupts();
  const RecordingOrder order{.command = kName,
                             .pid = options.pid,
                             .seconds = options.seconds,
                             .packets = options.packets,
                             .into = options.file};
  const RecordingResult result =
      record(order, [&]() -> Result<std::unique_ptr<link::CaptureFile>, std::string> {
        OwnedFd copy(::dup(packets->get()));
        if (!copy) return Failure{std::string(std::strerror(errno))};
        return link::CaptureFile::adopt(std::move(copy), {.packets_max = options.packets});
      });
  if (!result.began) return result.status;
  if (result.file_failed) return complain(kName, "the disk for the packets is full", "--seconds takes fewer");
  if (result.left_out != 0)
    std::cerr << formatted("{} packets were left out: this machine is too slow for all\n", result.left_out);
  go_on_after_interrupt();
  const int status = write_trace(options, packets->get());
  return status != kExitSuccess ? status : result.status;
}

}  // namespace

void add_trace_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* trace = add_command(app, "trace", kPackets, "Record running programs for ui.perfetto.dev",
                                "rrdma trace --seconds 5 now.perfetto-trace");
  trace
      ->add_option("FILE", options->file,
                   "The trace file, in the native format of Perfetto; overwritten if it exists")
      ->required();
  trace
      ->add_option("-p,--pid", options->pid,
                   "Only this process (default: all of this user, including later ones)")
      ->option_text("PID")
      ->check(CLI::PositiveNumber);
  trace->add_option("--seconds", options->seconds, "Stop after N seconds (default: at Ctrl-C)")
      ->option_text("N")
      ->check(CLI::Range(0.1, 1e6));
  trace->add_option("-c,--packets", options->packets, "Stop after N packets")
      ->option_text("N")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100'000'000}))
      ->capture_default_str();
  trace->footer(
      "A queue pair is a track, a work request a slice, a packet a flow. To convert an existing capture:\n"
      "rrdma inspect --perfetto FILE CAPTURE.\n"
      "Exit status: 0, or 2 on failure; Ctrl-C completes the trace and ends the command by the signal.");
  trace->callback([&chosen, options] { chosen = [options] { return run_trace(*options); }; });
}

}  // namespace rrdma::tools
