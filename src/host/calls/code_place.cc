#include "host/calls/code_place.h"

#include <fcntl.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/raw_syscall.h"

namespace rrdma::host {
namespace {

struct CodeMapping {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::uint64_t offset = 0;
  std::string_view path;

  [[nodiscard]] bool contains(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return at >= begin && at < end;
  }
  [[nodiscard]] std::string_view file_name() const { return path.substr(path.rfind('/') + 1); }
};

template <typename Number>
const char* parse_hexadecimal(const char* at, const char* end, Number& to) {
  return std::from_chars(at, end, to, 16).ptr;
}

// "7f0000000000-7f0000001000 r-xp 00002000 08:01 1234   /usr/lib/libc.so.6"; false: not code of a file.
bool parse_mapping(std::string_view line, CodeMapping& mapping) {
  const char* const end = line.data() + line.size();
  const char* at = parse_hexadecimal(line.data(), end, mapping.begin);
  if (at == end) return false;
  at = parse_hexadecimal(at + 1, end, mapping.end);
  if (end - at < 7 || at[3] != 'x') return false;
  parse_hexadecimal(at + 6, end, mapping.offset);
  const std::size_t path = line.find('/');
  if (path == std::string_view::npos) return false;
  mapping.path = line.substr(path);
  return true;
}

// Calls `visit` for each mapping that holds code. Allocates nothing.
template <typename Visit>
void for_each_code_mapping(Visit visit) {
  const int fd = raw::openat(AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return;
  std::array<char, 8192> buffer;
  std::size_t kept = 0;
  for (;;) {
    const ssize_t more = raw::read(fd, buffer.data() + kept, buffer.size() - kept);
    if (more <= 0) break;
    const std::string_view text(buffer.data(), kept + static_cast<std::size_t>(more));
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
      CodeMapping mapping;
      if (parse_mapping(text.substr(begin, end - begin), mapping)) visit(mapping);
    }
    kept = text.size() - begin;
    if (kept == buffer.size()) break;  // no such line exists
    std::memmove(buffer.data(), text.data() + begin, kept);
  }
  raw::close(fd);
}

// Libraries between the program and the device; their own lines explain nothing to the program's author.
bool is_between(const CodeMapping& mapping) {
  const std::string_view name = mapping.file_name();
  return name.starts_with("librrdma") || name.starts_with("libibverbs.so") ||
         name.starts_with("librdmacm.so") || mapping.contains(reinterpret_cast<const void*>(&place_of_call));
}

// A thread begins there: no program called.
bool is_runtime(std::string_view name) {
  return name.starts_with("libc.so") || name.starts_with("libc-") || name.starts_with("libstdc++.so");
}

struct Unwinding {
  static constexpr std::size_t kRangesMax = 16;
  static constexpr int kFramesMax = 64;
  struct Range {
    std::uintptr_t begin, end;
  };
  std::array<Range, kRangesMax> between;
  std::size_t ranges = 0;
  int frames = 0;
  CallSite site;

  [[nodiscard]] bool is_between(std::uintptr_t address) const {
    return std::any_of(between.begin(), between.begin() + ranges,
                       [&](const Range& range) { return address >= range.begin && address < range.end; });
  }
};

_Unwind_Reason_Code visit_frame(_Unwind_Context* context, void* argument) {
  auto& unwinding = *static_cast<Unwinding*>(argument);
  const std::uintptr_t address = _Unwind_GetIP(context);
  if (++unwinding.frames > Unwinding::kFramesMax) return _URC_END_OF_STACK;
  const auto* const code = reinterpret_cast<const void*>(address);
  if (unwinding.site.inner != nullptr) {
    unwinding.site.outer = code;
    return _URC_END_OF_STACK;
  }
  if (!unwinding.is_between(address)) unwinding.site.inner = code;
  return _URC_NO_REASON;
}

}  // namespace

CodePlace place_of(const CallSite& site) noexcept {
  CodePlace place;
  if (site.inner == nullptr) return place;
  const auto offset_of = [](const CodeMapping& mapping, const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) - mapping.begin + mapping.offset;
  };
  for_each_code_mapping([&](const CodeMapping& mapping) {
    if (!mapping.contains(site.inner) || mapping.path.size() >= CodePlace::kModuleMax) return;
    mapping.path.copy(place.module, CodePlace::kModuleMax - 1);
    place.inner = offset_of(mapping, site.inner);
    if (mapping.contains(site.outer)) place.outer = offset_of(mapping, site.outer);
  });
  return place;
}

CodePlace place_of_call() noexcept {
  Unwinding unwinding;
  for_each_code_mapping([&](const CodeMapping& mapping) {
    if (is_between(mapping) && unwinding.ranges < Unwinding::kRangesMax)
      unwinding.between[unwinding.ranges++] = {mapping.begin, mapping.end};
  });
  if (unwinding.ranges == 0) return {};
  (void)_Unwind_Backtrace(&visit_frame, &unwinding);
  const CodePlace place = place_of(unwinding.site);
  const std::string_view module = place.module;
  return is_runtime(module.substr(module.rfind('/') + 1)) ? CodePlace{} : place;
}

}  // namespace rrdma::host
