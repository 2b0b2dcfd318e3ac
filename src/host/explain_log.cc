#include "host/explain_log.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "base/file_space.h"
#include "base/owned_fd.h"
#include "base/process_facts.h"
#include "host/explain_end.h"

namespace rrdma::host {
namespace {

constexpr std::uint32_t kBeingWritten = ~std::uint32_t{0};
constexpr std::string_view kFilePrefix = "explain.";
constexpr std::int64_t kFoldFailuresNs = 1'000'000'000;

std::int64_t wall_clock_ns() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

template <std::size_t N>
void copy_text(char (&to)[N], std::string_view from) {
  const std::size_t n = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), n);
  to[n] = '\0';
}

// A text that was cut to fit equals the whole text.
template <std::size_t N>
bool same_text(const char (&kept)[N], std::string_view text) {
  return std::string_view(kept) == text.substr(0, N - 1);
}

constexpr std::size_t ring_start(std::size_t which) {
  std::size_t start = 0;
  for (std::size_t i = 0; i < which; ++i) start += kExplainRecords[i];
  return start;
}
static_assert(ring_start(kSeverities) == kExplainRecordsSum);

ExplainHandle handle_of(std::size_t which, std::uint32_t sequence) {
  return static_cast<ExplainHandle>(which) << 32 | sequence;
}

// FNV-1a.
std::uint32_t hash_of(std::string_view octets, std::uint32_t before = 2166136261u) {
  for (const char octet : octets) before = (before ^ static_cast<std::uint8_t>(octet)) * 16777619u;
  return before;
}
std::uint32_t key_of(std::string_view call, std::string_view sentence) {
  return hash_of(sentence, hash_of(call));
}
// Queue pair, sizes and addresses do not count.
std::uint32_t key_of(const ExplainFacts& facts) {
  const char same[] = {static_cast<char>(facts.kind),   static_cast<char>(facts.status),
                       static_cast<char>(facts.cause),  static_cast<char>(facts.opcode),
                       static_cast<char>(facts.reason), static_cast<char>(facts.qp_type)};
  return hash_of({reinterpret_cast<const char*>(&facts.peer), sizeof facts.peer},
                 hash_of({same, sizeof same}));
}

// Excludes the other threads of this process. The child of a fork may find the flag set forever; it gives up.
class WriterTurn {
 public:
  explicit WriterTurn(std::atomic_flag& taken) : taken_(taken) {
    for (int tries = 0; !(held_ = !taken_.test_and_set(std::memory_order_acquire)) && tries < kTries; ++tries)
      ::sched_yield();
  }
  ~WriterTurn() {
    if (held_) taken_.clear(std::memory_order_release);
  }
  WriterTurn(const WriterTurn&) = delete;
  WriterTurn& operator=(const WriterTurn&) = delete;
  [[nodiscard]] bool held() const { return held_; }

 private:
  static constexpr int kTries = 10'000;
  std::atomic_flag& taken_;
  bool held_ = false;
};

// Marks a record as being written, so that readers skip it.
class RecordChange {
 public:
  explicit RecordChange(ExplainRecord& record) : RecordChange(record, record.sequence.load()) {}
  RecordChange(ExplainRecord& record, std::uint32_t sequence_after)
      : record_(record), sequence_after_(sequence_after) {
    record.sequence.store(kBeingWritten, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~RecordChange() { record_.sequence.store(sequence_after_, std::memory_order_release); }
  RecordChange(const RecordChange&) = delete;
  RecordChange& operator=(const RecordChange&) = delete;

 private:
  ExplainRecord& record_;
  const std::uint32_t sequence_after_;
};

// 0 if there is no such process.
std::uint64_t start_ticks_of(std::uint32_t pid) {
  const auto stat = stat_of_process(static_cast<pid_t>(pid));
  return stat ? stat->start_ticks : 0;
}

std::string file_of(std::uint32_t pid) {
  const std::string directory = explain_directory();
  return directory.empty() ? std::string() : directory + "/" + std::string(kFilePrefix) + std::to_string(pid);
}

struct EarlierFile {
  std::int64_t written_s;
  std::string name;

  [[nodiscard]] bool is_in_use() const {
    const auto pid = static_cast<pid_t>(std::strtol(name.c_str() + kFilePrefix.size(), nullptr, 10));
    return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM);
  }
};

// Another process may do the same concurrently; ignore files that are already gone.
void remove_oldest_files() {
  const std::string directory = explain_directory();
  DIR* folder = directory.empty() ? nullptr : ::opendir(directory.c_str());
  if (folder == nullptr) return;
  std::vector<EarlierFile> files;
  while (const dirent* entry = ::readdir(folder)) {
    struct stat info {};
    if (!std::string_view(entry->d_name).starts_with(kFilePrefix)) continue;
    if (::fstatat(::dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    files.push_back({info.st_mtim.tv_sec, entry->d_name});
  }
  std::sort(files.begin(), files.end(),
            [](const EarlierFile& a, const EarlierFile& b) { return a.written_s < b.written_s; });
  std::size_t left = files.size();
  for (const EarlierFile& file : files) {
    if (left < kExplainFiles) break;
    if (!file.is_in_use() && ::unlinkat(::dirfd(folder), file.name.c_str(), 0) == 0) --left;
  }
  ::closedir(folder);
}

// A process with the same PID in another PID namespace may have mapped the existing file. Unlink it and
// create a new one instead of changing it.
OwnedFd fresh_file(const std::string& path) {
  constexpr int kTries = 8;  // another process may do the same
  for (int i = 0; i < kTries; ++i) {
    ::unlink(path.c_str());
    OwnedFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd.get() >= 0 || errno != EEXIST) return fd;
  }
  return OwnedFd();
}

void* map_file() {
  const std::string path = file_of(static_cast<std::uint32_t>(::getpid()));
  if (path.empty()) return MAP_FAILED;
  remove_oldest_files();
  const OwnedFd fd = fresh_file(path);
  if (fd.get() < 0) return MAP_FAILED;
  if (!allocate_file(fd.get(), sizeof(ExplainFile))) {
    ::unlink(path.c_str());
    return MAP_FAILED;
  }
  return ::mmap(nullptr, sizeof(ExplainFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
}

}  // namespace

std::string explain_directory() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::string path = runtime != nullptr && runtime[0] == '/' && ::access(runtime, W_OK) == 0
                               ? std::string(runtime) + "/rrdma"
                               : "/tmp/rrdma-" + std::to_string(::geteuid());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return {};
  struct stat info {};
  // Do not write into another user's directory or follow a symbolic link.
  if (::lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) return {};
  return path;
}

std::uint64_t net_namespace_of_this_process() {
  char text[64];
  const ssize_t length = ::readlink("/proc/self/ns/net", text, sizeof text - 1);
  if (length <= 0) return 0;
  text[length] = '\0';
  const char* number = std::strchr(text, '[');  // "net:[4026531840]"
  return number == nullptr ? 0 : std::strtoull(number + 1, nullptr, 10);
}

ExplainLog::ExplainLog() {
  void* memory = map_file();
  in_file_ = memory != MAP_FAILED;
  if (!in_file_) {
    memory = ::mmap(nullptr, sizeof(ExplainFile), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (memory == MAP_FAILED) return;
  file_ = new (memory) ExplainFile;
  file_->version = kExplainVersion;
  file_->pid = static_cast<std::uint32_t>(::getpid());
  for (auto& next : file_->next) next = 0;
  file_->net_namespace = net_namespace_of_this_process();
  file_->start_ticks = start_ticks_of(file_->pid);
  copy_text(file_->program, program_invocation_short_name);
  for (auto& record : file_->records) record.sequence.store(0);
  file_->magic = kExplainMagic;
}

ExplainRecord* ExplainLog::ring(std::size_t which) const { return file_->records + ring_start(which); }

Kept ExplainLog::append(Severity severity, std::string_view call, std::string_view sentence,
                        const ExplainFacts* facts) noexcept {
  const WriterTurn turn(taken_);
  if (file_ == nullptr || !turn.held()) return {};
  const auto which = static_cast<std::size_t>(severity);
  const std::uint32_t key = facts == nullptr ? key_of(call, sentence) : key_of(*facts);
  const std::int64_t now = wall_clock_ns();
  for (std::uint32_t i = 0; i < kExplainRecords[which]; ++i) {
    ExplainRecord& record = ring(which)[i];
    const std::uint32_t sequence = record.sequence.load(std::memory_order_relaxed);
    if (sequence == 0 || record.key != key || !same_text(record.call, call)) continue;
    if (facts == nullptr ? !same_text(record.sentence, sentence) : now - record.last_ns >= kFoldFailuresNs)
      continue;
    const RecordChange change(record);
    record.last_ns = now;
    record.severity = static_cast<std::uint8_t>(severity);  // explain_forgiven() may have lowered it
    return {handle_of(which, sequence), ++record.times};
  }
  const std::uint32_t index = file_->next[which]++;
  ExplainRecord& record = ring(which)[index % kExplainRecords[which]];
  const RecordChange change(record, index + 1);
  record.severity = static_cast<std::uint8_t>(severity);
  record.times = 1;
  record.key = key;
  record.first_ns = record.last_ns = now;
  record.facts = facts == nullptr ? ExplainFacts{} : *facts;
  record.place = {};
  copy_text(record.call, call);
  copy_text(record.sentence, sentence);
  return {handle_of(which, index + 1), 1};
}

ExplainRecord* ExplainLog::record_of(ExplainHandle handle) noexcept {
  if (file_ == nullptr || handle == 0) return nullptr;
  const auto which = static_cast<std::size_t>(handle >> 32);
  const auto sequence = static_cast<std::uint32_t>(handle);
  ExplainRecord& record = ring(which)[(sequence - 1) % kExplainRecords[which]];
  return record.sequence.load(std::memory_order_relaxed) == sequence ? &record : nullptr;
}

void ExplainLog::add_flushed(ExplainHandle handle, std::uint32_t sends, std::uint32_t receives) noexcept {
  const WriterTurn turn(taken_);
  ExplainRecord* found = turn.held() ? record_of(handle) : nullptr;
  if (found == nullptr) return;
  ExplainRecord& record = *found;
  const RecordChange change(record);
  record.facts.flushed_sends += sends;
  record.facts.flushed_receives += receives;
}

void ExplainLog::set_place(ExplainHandle handle, const CodePlace& place) noexcept {
  const WriterTurn turn(taken_);
  ExplainRecord* found = turn.held() ? record_of(handle) : nullptr;
  if (found == nullptr) return;
  const RecordChange change(*found);
  found->place = place;
}

void ExplainLog::amend(ExplainHandle handle, std::string_view sentence, const ExplainFacts& facts) noexcept {
  const WriterTurn turn(taken_);
  ExplainRecord* found = turn.held() ? record_of(handle) : nullptr;
  if (found == nullptr) return;
  ExplainRecord& record = *found;
  const RecordChange change(record);
  const std::uint32_t sends = record.facts.flushed_sends, receives = record.facts.flushed_receives;
  record.facts = facts;
  record.facts.flushed_sends = sends;
  record.facts.flushed_receives = receives;
  copy_text(record.sentence, sentence);
}

void ExplainLog::forgive(std::string_view call) noexcept {
  const WriterTurn turn(taken_);
  if (file_ == nullptr || !turn.held()) return;
  constexpr auto kInfos = static_cast<std::size_t>(Severity::kInfo);
  for (std::uint32_t i = 0; i < kExplainRecords[kInfos]; ++i) {
    ExplainRecord& record = ring(kInfos)[i];
    if (record.sequence.load(std::memory_order_relaxed) == 0 || !same_text(record.call, call)) continue;
    const RecordChange change(record);
    record.severity = static_cast<std::uint8_t>(Severity::kDebug);
  }
}

ExplainLog& explain_log() {
  static auto* log = [] {  // never destroyed: destructors may still explain
    auto* made = new ExplainLog;
    if (made->is_in_file()) tell_at_end();
    return made;
  }();
  return *log;
}

ExplainedProcess read_explained(std::uint32_t pid) {
  ExplainedProcess result{.pid = pid};
  OwnedFd fd(::open(file_of(pid).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.get() < 0) return result;
  auto file = std::make_unique<ExplainFile>();
  if (::read(fd.get(), static_cast<void*>(file.get()), sizeof *file) != static_cast<ssize_t>(sizeof *file))
    return result;
  if (file->magic != kExplainMagic || file->version != kExplainVersion) return result;
  file->program[sizeof file->program - 1] = '\0';
  result.program = file->program;
  result.net_namespace = file->net_namespace;
  result.running = file->start_ticks != 0 && start_ticks_of(pid) == file->start_ticks;
  for (ExplainRecord& record : file->records) {
    const std::uint32_t sequence = record.sequence.load();
    if (sequence == 0 || sequence == kBeingWritten || record.severity >= kSeverities) continue;
    record.call[sizeof record.call - 1] = '\0';
    record.sentence[sizeof record.sentence - 1] = '\0';
    record.place.module[CodePlace::kModuleMax - 1] = '\0';
    result.sentences.push_back({static_cast<Severity>(record.severity), record.times, record.first_ns,
                                record.last_ns, record.call, record.sentence, record.facts, record.place});
  }
  std::stable_sort(result.sentences.begin(), result.sentences.end(),
                   [](const Explained& a, const Explained& b) {
                     return a.severity != b.severity ? a.severity < b.severity : a.last_ns > b.last_ns;
                   });
  return result;
}

std::vector<std::uint32_t> explained_pids() {
  std::vector<std::uint32_t> pids;
  const std::string directory = explain_directory();
  DIR* folder = directory.empty() ? nullptr : ::opendir(directory.c_str());
  if (folder == nullptr) return pids;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(kFilePrefix))
      pids.push_back(
          static_cast<std::uint32_t>(std::strtoul(name.substr(kFilePrefix.size()).data(), nullptr, 10)));
  }
  ::closedir(folder);
  return pids;
}

// ---- facts as digits ----

static_assert(std::is_trivially_copyable_v<ExplainFacts>);
constexpr std::string_view kHexDigits = "0123456789abcdef";

std::string digits_of(const ExplainFacts& facts) {
  std::array<std::uint8_t, sizeof(ExplainFacts)> octets;
  std::memcpy(octets.data(), &facts, sizeof facts);
  std::string digits;
  digits.reserve(2 * octets.size());
  for (const std::uint8_t octet : octets) {
    digits += kHexDigits[octet >> 4];
    digits += kHexDigits[octet & 15];
  }
  return digits;
}

// The text comes from a file, so nothing is taken for granted.
std::optional<ExplainFacts> facts_from(std::string_view digits) {
  std::array<std::uint8_t, sizeof(ExplainFacts)> octets;
  if (digits.size() != 2 * octets.size()) return std::nullopt;
  for (std::size_t i = 0; i < octets.size(); ++i) {
    const std::size_t high = kHexDigits.find(digits[2 * i]), low = kHexDigits.find(digits[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    octets[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  ExplainFacts facts;
  std::memcpy(&facts, octets.data(), sizeof facts);
  facts.peer_program[sizeof facts.peer_program - 1] = '\0';
  const bool is_failure = facts.kind >= ExplainFacts::kSend && facts.kind <= ExplainFacts::kRefused;
  return is_failure ? std::optional(facts) : std::nullopt;
}

}  // namespace rrdma::host
