#include "link/capture_limits.h"

#include <charconv>
#include <limits>

namespace rrdma::link {
namespace {

template <typename Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number != 0;
}

bool read_item(std::string_view name, std::string_view value, CaptureLimits& limits) {
  if (name == "snap") return read_number(value, limits.snap_octets);
  if (name == "count") return read_number(value, limits.packets_max);
  if (name == "size") return read_number(value, limits.file_octets);
  return name == "files" && read_number(value, limits.files_max);
}

}  // namespace

Result<CaptureLimits, std::string> parse_capture_limits(std::string_view text) {
  CaptureLimits limits;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos ||
        !read_item(item.substr(0, equals), item.substr(equals + 1), limits)) {
      return Failure{
          "'" + std::string(item) +
          "' is no limit of a capture: write snap, count, size or files with a number above 0, such as "
          "snap=128,count=1000"};
    }
  }
  return limits;
}

std::string emit_capture_limits(const CaptureLimits& limits) {
  std::string text;
  const auto add = [&](const char* name, std::uint64_t value) {
    if (value != 0) text += (text.empty() ? "" : ",") + std::string(name) + "=" + std::to_string(value);
  };
  add("snap", limits.snap_octets);
  add("count", limits.packets_max);
  add("size", limits.file_octets);
  add("files", limits.files_max);
  return text;
}

}  // namespace rrdma::link
