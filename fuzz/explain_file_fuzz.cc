// The file of explained sentences that a process leaves behind, as `rrdma explain` reads and prints it. The
// input is either the file itself, or a list of changes to a file that is right. No text of the file controls
// a terminal, and the JSON output is valid.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/owned_fd.h"
#include "base/visible_text.h"
#include "cost.h"
#include "host/explain_log.h"
#include "input.h"
#include "tools/explain/explain_json.h"
#include "tools/explain/process_report.h"

namespace rrdma::explain_file_fuzz {

constexpr std::uint32_t kPid = 4711;
constexpr std::size_t kChangesMax = 64;

// A runtime directory of our own, removed at the end.
class Folder {
 public:
  Folder() : path_("/tmp/rrdma-explain-fuzz-XXXXXX") {
    RRDMA_ASSERT(::mkdtemp(path_.data()) != nullptr);
    ::setenv("XDG_RUNTIME_DIR", path_.c_str(), 1);
    const std::string directory = host::explain_directory();
    RRDMA_ASSERT(directory.starts_with(path_));
    file_ = directory + "/explain." + std::to_string(kPid);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  void write(Octets octets) const {
    const OwnedFd file(::open(file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    RRDMA_ASSERT(::write(file.get(), octets.data(), octets.size()) == static_cast<ssize_t>(octets.size()));
  }

 private:
  std::string path_;
  std::string file_;
};

std::vector<std::uint8_t> right_file() {
  const auto file = std::make_unique<host::ExplainFile>();
  file->magic = host::kExplainMagic;
  file->version = host::kExplainVersion;
  file->pid = kPid;
  std::strcpy(file->program, "program");
  for (std::uint32_t i = 0; i < host::kExplainRecordsSum; i += 9) {
    host::ExplainRecord& record = file->records[i];
    record.sequence = i + 1;
    record.severity = static_cast<std::uint8_t>(i % host::kSeverities);
    record.times = i;
    record.facts.kind = static_cast<std::uint8_t>(i % 5);
    std::strcpy(record.call, "ibv_post_send");
    std::strcpy(record.sentence, "The work request failed.");
  }
  std::vector<std::uint8_t> octets(sizeof *file);
  std::memcpy(octets.data(), static_cast<const void*>(file.get()), octets.size());
  return octets;
}

// Each change: a record (or the header), an offset in it, and bytes.
std::vector<std::uint8_t> changed_file(fuzz::Input input) {
  std::vector<std::uint8_t> octets = right_file();
  for (std::size_t i = 0; i < kChangesMax && !input.empty(); ++i) {
    const std::size_t record = input.below(host::kExplainRecordsSum + 1);
    const std::size_t first =
        record == 0 ? 0 : offsetof(host::ExplainFile, records) + (record - 1) * sizeof(host::ExplainRecord);
    const std::size_t at = first + input.word() % sizeof(host::ExplainRecord);
    const Octets piece = input.take(input.octet());
    for (std::size_t k = 0; k < piece.size() && at + k < octets.size(); ++k) octets[at + k] = piece[k];
  }
  return octets;
}

void require_visible(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = text.front() == '\n' ? 1 : visible_octets(text);
    RRDMA_ASSERT(size != 0);
    text.remove_prefix(size);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  if (size == 0) return 0;
  if (data[0] == 0) {
    folder.write(changed_file(fuzz::Input({data + 1, size - 1})));
  } else {
    folder.write({data + 1, size - 1});
  }
  const fuzz::Cost cost({.ms = 1000});
  const host::ExplainedProcess process = host::read_explained(kPid);
  RRDMA_ASSERT(process.sentences.size() <= host::kExplainRecordsSum);
  for (const auto language : {tools::Language::kEnglish, tools::Language::kChinese}) {
    require_visible(
        tools::text_of_process(process, {&process, 1}, {.language = language, .palette = {}, .columns = 80}));
    const std::string json = tools::processes_json({&process, 1}, {&process, 1}, language);
    RRDMA_ASSERT(nlohmann::json::accept(json));
  }
  return 0;
}

}  // namespace rrdma::explain_file_fuzz
