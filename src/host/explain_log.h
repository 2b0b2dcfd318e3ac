// The last sentences of this process, in a mapped file under the user's runtime directory. `rrdma explain`
// reads it, also after the process has ended. If the file cannot be created or backed by disk, the sentences
// exist only in memory. Files of ended processes remain readable; once there are kExplainFiles, the oldest
// ones are removed.
//
//   file = Header, three rings of records: errors, infos, debugging; `next` of each counts up forever.
//
// Infos never displace an error. A sentence that is already in its ring is counted there.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/calls/code_place.h"
#include "host/explain.h"

namespace rrdma::host {

inline constexpr std::uint32_t kExplainMagic = 0x52524558;  // "RREX"
inline constexpr std::uint32_t kExplainVersion = 5;
inline constexpr std::array<std::uint32_t, kSeverities> kExplainRecords = {32, 24, 16};
inline constexpr std::uint32_t kExplainRecordsSum = 32 + 24 + 16;
inline constexpr std::size_t kExplainFiles = 64;

struct ExplainRecord {
  std::atomic<std::uint32_t> sequence;  // index + 1 once written; 0: never written, all ones: being written
  std::uint8_t severity;
  std::uint8_t reserved[3];
  std::uint32_t times;
  std::uint32_t key;  // hash of everything that makes sentences equal
  std::int64_t first_ns;
  std::int64_t last_ns;
  ExplainFacts facts;
  CodePlace place;
  char call[48];
  char sentence[1024];
};

struct ExplainFile {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t pid;
  std::uint32_t next[kSeverities];
  std::uint64_t net_namespace;  // inode of /proc/self/ns/net
  std::uint64_t start_ticks;    // distinguishes this process from later ones with the same PID
  char program[48];
  ExplainRecord records[kExplainRecordsSum];
};

// One sentence as read from the file.
struct Explained {
  Severity severity = Severity::kInfo;
  std::uint32_t times = 1;
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::string call;
  std::string sentence;
  ExplainFacts facts;  // kNone: no facts
  CodePlace place;     // of the call that was refused, or that posted the request
};

struct ExplainedProcess {
  std::uint32_t pid = 0;
  std::uint64_t net_namespace = 0;
  bool running = false;
  std::string program;
  std::vector<Explained> sentences;  // errors, infos, debugging; each newest first
};

struct Kept {
  ExplainHandle handle = 0;
  std::uint32_t times = 1;  // number of times it was recorded

  [[nodiscard]] bool is_new() const { return handle != 0 && times == 1; }
};

class ExplainLog {
 public:
  ExplainLog();
  // `facts`: of a failure, or null.
  Kept append(Severity severity, std::string_view call, std::string_view sentence,
              const ExplainFacts* facts = nullptr) noexcept;
  // Replaces the sentence and the facts of a failure, if its record is still there.
  void amend(ExplainHandle handle, std::string_view sentence, const ExplainFacts& facts) noexcept;
  void add_flushed(ExplainHandle handle, std::uint32_t sends, std::uint32_t receives) noexcept;
  void set_place(ExplainHandle handle, const CodePlace& place) noexcept;
  void forgive(std::string_view call) noexcept;
  // False: in memory only, invisible to tools.
  [[nodiscard]] bool is_in_file() const { return in_file_; }

 private:
  ExplainRecord* ring(std::size_t which) const;
  // Null if the record was reused since.
  ExplainRecord* record_of(ExplainHandle handle) noexcept;

  ExplainFile* file_ = nullptr;
  bool in_file_ = false;
  std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
};

// The log of this process, created by the first call.
ExplainLog& explain_log();

// The directory of the logs: $XDG_RUNTIME_DIR/rrdma or /tmp/rrdma-UID (mode 0700). Empty if there is none.
std::string explain_directory();
// Inode of the network namespace of this process; 0 if unknown.
std::uint64_t net_namespace_of_this_process();
// The sentences of one process; empty if it left none.
ExplainedProcess read_explained(std::uint32_t pid);
// PIDs of the processes that left a file, unsorted.
std::vector<std::uint32_t> explained_pids();

}  // namespace rrdma::host
