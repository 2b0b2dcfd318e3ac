// Facts about other processes, from /proc.
//
// A pid is a number in our PID namespace. /proc may show an outer one (`unshare --pid` alone leaves it
// mounted), where the same number is another process. The kernel translates the number: /proc/self/fdinfo of
// a pidfd has the one that this /proc uses.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rrdma {

// The folder of the process in /proc; empty if /proc does not show it.
[[nodiscard]] std::string proc_folder(pid_t pid);

struct ProcessLineage {
  pid_t parent = 0;
  std::vector<pid_t> pids;  // in the namespace that /proc shows, and in those below it; empty: unknown
};
[[nodiscard]] ProcessLineage lineage_of(const std::string& folder);

// The first 4 KiB of a file of /proc; nothing if it cannot be read.
[[nodiscard]] std::optional<std::string> proc_text(const std::string& path);

struct ProcessStat {
  char state;                 // 'Z' or 'X': exited, not yet waited for
  unsigned long flags;        // PF_* of the kernel
  std::uint64_t start_ticks;  // since boot; never 0
};
// Nothing: there is no such process.
[[nodiscard]] std::optional<ProcessStat> stat_of_process(pid_t pid);

}  // namespace rrdma
