#include "faults/values.h"

#include <charconv>

#include "base/result_try.h"
#include "link/fault_spec.h"

namespace rrdma::faults {
namespace {

constexpr Duration kTimeMax = seconds(365 * 24 * 3600);

}  // namespace

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

Result<std::uint64_t, std::string> number_of(std::string_view name, std::string_view text,
                                             std::uint64_t least) {
  const bool hexadecimal = text.starts_with("0x");
  const std::string_view digits = hexadecimal ? text.substr(2) : text;
  std::uint64_t value = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value, hexadecimal ? 16 : 10);
  if (error != std::errc() || end != last || value < least)
    return Failure{quoted(text) + " is no number for " + quoted(name) + "."};
  return value;
}

Result<Duration, std::string> time_of(std::string_view text) {
  auto time = link::parse_duration(text);
  RRDMA_TRY(time);
  if (*time > kTimeMax) return Failure{quoted(text) + " is too long a time: a year is the most."};
  return *time;
}

}  // namespace rrdma::faults
