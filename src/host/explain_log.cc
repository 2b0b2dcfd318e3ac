#include "host/explain_log.h"

#include <dirent.h>
#include <fcntl.h>
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

#include "base/file_space.h"
#include "base/owned_fd.h"

namespace rrdma::host {
namespace {

constexpr std::uint32_t kBeingWritten = ~std::uint32_t{0};
constexpr std::string_view kFilePrefix = "explain.";

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

// Others may do the same at this moment: a file that is gone already is as good.
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

void* map_file() {
  const std::string path = file_of(static_cast<std::uint32_t>(::getpid()));
  if (path.empty()) return MAP_FAILED;
  remove_oldest_files();
  OwnedFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
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
  // Somebody else's directory, or a link to one, is not ours to write in.
  if (::lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) return {};
  return path;
}

ExplainLog::ExplainLog() {
  void* memory = map_file();
  if (memory == MAP_FAILED) {
    memory = ::mmap(nullptr, sizeof(ExplainFile), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (memory == MAP_FAILED) return;
  file_ = new (memory) ExplainFile;
  file_->version = kExplainVersion;
  file_->pid = static_cast<std::uint32_t>(::getpid());
  file_->next.store(0);
  copy_text(file_->program, program_invocation_short_name);
  for (auto& record : file_->records) record.sequence.store(0);
  file_->magic = kExplainMagic;
}

void ExplainLog::append(Severity severity, std::string_view call, std::string_view sentence) noexcept {
  if (file_ == nullptr) return;
  const std::uint32_t index = file_->next.fetch_add(1);
  ExplainRecord& record = file_->records[index % kExplainRecords];
  // Who is a whole round behind still writes here: one of the two sentences is lost, not both.
  std::uint32_t sequence = record.sequence.load(std::memory_order_relaxed);
  if (sequence == kBeingWritten ||
      !record.sequence.compare_exchange_strong(sequence, kBeingWritten, std::memory_order_acquire))
    return;
  record.severity = static_cast<std::uint8_t>(severity);
  record.wall_ns = wall_clock_ns();
  copy_text(record.call, call);
  copy_text(record.sentence, sentence);
  record.sequence.store(index + 1, std::memory_order_release);
}

ExplainLog& explain_log() {
  static auto* log = new ExplainLog;  // outlives every destructor that may still want to explain something
  return *log;
}

std::vector<Explained> read_explained(std::uint32_t pid) {
  std::vector<Explained> result;
  OwnedFd fd(::open(file_of(pid).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.get() < 0) return result;
  auto file = std::make_unique<ExplainFile>();
  if (::read(fd.get(), static_cast<void*>(file.get()), sizeof *file) != static_cast<ssize_t>(sizeof *file))
    return result;
  if (file->magic != kExplainMagic || file->version != kExplainVersion) return result;
  const std::uint32_t next = file->next.load();
  const std::uint32_t first = next > kExplainRecords ? next - static_cast<std::uint32_t>(kExplainRecords) : 0;
  for (std::uint32_t i = first; i != next; ++i) {
    ExplainRecord& record = file->records[i % kExplainRecords];
    if (record.sequence.load() != i + 1) continue;
    record.call[sizeof record.call - 1] = '\0';
    record.sentence[sizeof record.sentence - 1] = '\0';
    result.push_back({static_cast<Severity>(record.severity), record.wall_ns, record.call, record.sentence});
  }
  return result;
}

}  // namespace rrdma::host
