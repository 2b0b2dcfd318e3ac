// The last sentences of this process, in a file under the user's runtime directory that is mapped and
// written in place: `rrdma explain` reads it, also after the process has ended. Where no such file can be
// made, or none that is really there (a full disk), the sentences live in memory only. Files of processes that have ended stay to be read; the oldest of
// them make room for a new one when there are kExplainFiles.
//
//   file = Header, records[kRecords]    a ring; `next` counts up for ever
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/explain.h"

namespace rrdma::host {

inline constexpr std::uint32_t kExplainMagic = 0x52524558;  // "RREX"
inline constexpr std::uint32_t kExplainVersion = 1;
inline constexpr std::size_t kExplainRecords = 64;
inline constexpr std::size_t kExplainFiles = 64;

struct ExplainRecord {
  std::atomic<std::uint32_t> sequence;  // index + 1 once it is written; 0: never, all ones: just now
  std::uint8_t severity;
  std::uint8_t reserved[3];
  std::int64_t wall_ns;
  char call[48];
  char sentence[448];
};
static_assert(sizeof(ExplainRecord) == 512);

struct ExplainFile {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t pid;
  std::atomic<std::uint32_t> next;
  char program[48];
  ExplainRecord records[kExplainRecords];
};

// One sentence as a reader gets it.
struct Explained {
  Severity severity = Severity::kInfo;
  std::int64_t wall_ns = 0;
  std::string call;
  std::string sentence;
};

class ExplainLog {
 public:
  ExplainLog();
  void append(Severity severity, std::string_view call, std::string_view sentence) noexcept;

 private:
  ExplainFile* file_ = nullptr;
};

// The log of this process, made at the first call.
ExplainLog& explain_log();

// Where logs lie: $XDG_RUNTIME_DIR/rrdma or /tmp/rrdma-UID (mode 0700). Empty if there is no such place.
std::string explain_directory();
// The sentences of one process, oldest first; empty if there are none.
std::vector<Explained> read_explained(std::uint32_t pid);

}  // namespace rrdma::host
