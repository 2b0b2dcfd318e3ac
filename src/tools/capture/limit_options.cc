#include "tools/capture/limit_options.h"

#include <CLI/CLI.hpp>
#include <charconv>

namespace rrdma::tools {
namespace {

// A smaller file would hold only its header and a packet or two.
constexpr std::uint64_t kFileOctetsMin = 10'000;

// "100" means millions of bytes, as in tcpdump; "64k", "2M" and "1G" use their suffix. Returns 0 for an
// invalid size.
std::uint64_t octets_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc() || value > 1'000'000'000) return 0;
  if (unit.empty()) return value * 1'000'000;
  if (unit == "k" || unit == "K") return value * 1024;
  if (unit == "m" || unit == "M") return value * 1024 * 1024;
  if (unit == "g" || unit == "G") return value * 1024 * 1024 * 1024;
  return 0;
}

}  // namespace

void add_limit_options(CLI::App& command, LimitWords& words) {
  command
      .add_option("-s,--snap", words.snap_octets,
                  "Keep only the first bytes of each packet (default: all; 128 hold every header)")
      ->option_text("BYTES");
  command.add_option("-c,--packets", words.packets, "Stop after N packets")
      ->option_text("N")
      ->check(CLI::PositiveNumber);
  command
      .add_option("-C,--file-size", words.file_size,
                  "Start a new file (FILE.1, FILE.2, …) at this size: millions of bytes, or 64k, 10M, 1G")
      ->option_text("SIZE");
  command.add_option("-W,--files", words.files, "With -C: keep N files, then overwrite the first one")
      ->option_text("N")
      ->check(CLI::PositiveNumber);
}

Result<link::CaptureLimits, std::string> limits_of(const LimitWords& words) {
  link::CaptureLimits limits{
      .snap_octets = words.snap_octets, .packets_max = words.packets, .files_max = words.files};
  if (!words.file_size.empty()) {
    limits.file_octets = octets_of(words.file_size);
    if (limits.file_octets < kFileOctetsMin)
      return Failure{"-C: '" + words.file_size +
                     "' is no size of a file: write millions of bytes, or 64k, 10M, 1G"};
  }
  if (limits.files_max != 0 && limits.file_octets == 0)
    return Failure{std::string("-W needs -C: without a size no file is ever full")};
  return limits;
}

}  // namespace rrdma::tools
