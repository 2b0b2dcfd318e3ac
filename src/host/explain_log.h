// The last sentences of this process, in a file under the user's runtime directory that is mapped and
// written in place: `rrdma explain` reads it, also after the process has ended. Where no such file can be
// made, or none that is really there (a full disk), the sentences live in memory only. Files of processes that have ended stay to be read; the oldest of
// them make room for a new one when there are kExplainFiles.
//
//   file = Header, three rings of records: errors, infos, debugging; `next` of each counts up for ever.
//
// No number of infos pushes an error out. A sentence that is in its ring already is counted there.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/explain.h"

namespace rrdma::host {

inline constexpr std::uint32_t kExplainMagic = 0x52524558;  // "RREX"
inline constexpr std::uint32_t kExplainVersion = 2;
inline constexpr std::array<std::uint32_t, kSeverities> kExplainRecords = {32, 24, 16};
inline constexpr std::uint32_t kExplainRecordsSum = 32 + 24 + 16;
inline constexpr std::size_t kExplainFiles = 64;

struct ExplainRecord {
  std::atomic<std::uint32_t> sequence;  // index + 1 once it is written; 0: never, all ones: just now
  std::uint8_t severity;
  std::uint8_t reserved[3];
  std::uint32_t times;
  std::uint32_t key;  // of what counts as the same
  std::int64_t first_ns;
  std::int64_t last_ns;
  ExplainFacts facts;
  char call[48];
  char sentence[768];
};

struct ExplainFile {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t pid;
  std::uint32_t next[kSeverities];
  std::uint64_t net_namespace;  // inode of /proc/self/ns/net
  std::uint64_t start_ticks;    // with the pid: this process and no later one of that number
  char program[48];
  ExplainRecord records[kExplainRecordsSum];
};

// One sentence as a reader gets it.
struct Explained {
  Severity severity = Severity::kInfo;
  std::uint32_t times = 1;
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::string call;
  std::string sentence;
  ExplainFacts facts;  // kNone: only the sentence
};

struct ExplainedProcess {
  std::uint32_t pid = 0;
  std::uint64_t net_namespace = 0;
  bool running = false;
  std::string program;
  std::vector<Explained> sentences;  // errors, infos, debugging; newest first in each
};

struct Kept {
  ExplainHandle handle = 0;
  std::uint32_t times = 1;  // how often it was said
};

class ExplainLog {
 public:
  ExplainLog();
  // `facts`: of a failure, or null.
  Kept append(Severity severity, std::string_view call, std::string_view sentence,
              const ExplainFacts* facts = nullptr) noexcept;
  void add_flushed(ExplainHandle handle, std::uint32_t sends, std::uint32_t receives) noexcept;
  void forgive(std::string_view call) noexcept;
  // False: in memory only, where no tool finds it.
  [[nodiscard]] bool is_in_file() const { return in_file_; }

 private:
  ExplainRecord* ring(std::size_t which) const;

  ExplainFile* file_ = nullptr;
  bool in_file_ = false;
  std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
};

// The log of this process, made at the first call.
ExplainLog& explain_log();

// Where logs lie: $XDG_RUNTIME_DIR/rrdma or /tmp/rrdma-UID (mode 0700). Empty if there is no such place.
std::string explain_directory();
// Inode of the network namespace of this process; 0 if it cannot be told.
std::uint64_t net_namespace_of_this_process();
// The sentences of one process; none if it left nothing.
ExplainedProcess read_explained(std::uint32_t pid);
// Processes that left a file, in no order.
std::vector<std::uint32_t> explained_pids();

}  // namespace rrdma::host
