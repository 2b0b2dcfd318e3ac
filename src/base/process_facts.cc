#include "base/process_facts.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/owned_fd.h"
#include "base/raw_syscall.h"

namespace rrdma {
namespace {

// Our own number in /proc; 0 without /proc.
pid_t own_number() {
  char text[16] = {};
  if (raw::readlinkat(AT_FDCWD, "/proc/self", text, sizeof text - 1) <= 0) return 0;
  return static_cast<pid_t>(std::strtol(text, nullptr, 10));
}

// The number of a process in a /proc of an outer PID namespace; 0: it is not there, or a kernel before 5.3.
pid_t translated(pid_t pid) {
  const OwnedFd process(raw::pidfd_open(pid, 0));
  if (!process) return 0;
  const auto text = proc_text("/proc/self/fdinfo/" + std::to_string(process.get()));
  const char* line = text ? std::strstr(text->c_str(), "\nPid:") : nullptr;
  return line == nullptr ? 0 : static_cast<pid_t>(std::strtol(line + 5, nullptr, 10));
}

}  // namespace

std::string proc_folder(pid_t pid) {
  if (pid <= 0) return {};
  // In an outer /proc our number may happen to be the one of this namespace. But there we have several.
  const bool is_ours = own_number() == raw::getpid() && lineage_of("/proc/self").pids.size() == 1;
  const pid_t number = is_ours ? pid : translated(pid);
  return number > 0 ? "/proc/" + std::to_string(number) : std::string();
}

ProcessLineage lineage_of(const std::string& folder) {
  const std::string status = proc_text(folder + "/status").value_or("");
  const auto numbers_after = [&](std::string_view label) {
    std::vector<pid_t> numbers;
    const auto found = status.find(label);
    const char* at = found == std::string::npos ? "" : status.c_str() + found + label.size();
    while (*at == '\t') {
      char* end = nullptr;
      numbers.push_back(static_cast<pid_t>(std::strtol(at, &end, 10)));
      at = end;
    }
    return numbers;
  };
  const auto parent = numbers_after("\nPPid:");
  return {.parent = parent.empty() ? 0 : parent[0], .pids = numbers_after("\nNSpid:")};
}

std::optional<std::string> proc_text(const std::string& path) {
  const OwnedFd file(raw::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t size = file ? raw::read(file.get(), text, sizeof text) : -1;
  if (size < 0) return std::nullopt;
  return std::string(text, static_cast<std::size_t>(size));
}

std::optional<ProcessStat> stat_of_process(pid_t pid) {
  constexpr int kStateField = 3, kFlagsField = 9, kStartField = 22;
  const std::string folder = proc_folder(pid);
  const auto text = folder.empty() ? std::nullopt : proc_text(folder + "/stat");
  // The name is in parentheses and may contain any character.
  const char* at = text ? std::strrchr(text->c_str(), ')') : nullptr;
  ProcessStat found{};
  for (int field = kStateField; at != nullptr && field <= kStartField; ++field) {
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) break;
    if (field == kStateField) found.state = at[1];
    if (field == kFlagsField) found.flags = std::strtoul(at, nullptr, 10);
    if (field == kStartField) found.start_ticks = std::strtoull(at, nullptr, 10);
  }
  return found.start_ticks != 0 ? std::optional(found) : std::nullopt;
}

}  // namespace rrdma
