#include "tools/explain/source_line.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "base/format.h"
#include "base/owned_fd.h"
#include "tools/own_command.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

constexpr std::chrono::milliseconds kResolveTimeout{5000};

// An executable file, and the addresses that its contents get.
class Module {
 public:
  explicit Module(const char* path) : fd_(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    Elf64_Ehdr head{};
    if (::pread(fd_.get(), &head, sizeof head, 0) != sizeof head) return;
    if (std::string_view(reinterpret_cast<const char*>(head.e_ident), SELFMAG) != ELFMAG) return;
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr)) return;
    segments_.resize(head.e_phnum);
    const auto size = static_cast<ssize_t>(segments_.size() * sizeof(Elf64_Phdr));
    if (::pread(fd_.get(), segments_.data(), static_cast<std::size_t>(size),
                static_cast<off_t>(head.e_phoff)) != size)
      segments_.clear();
  }

  // False if the file was written after `wall_ns`: then it is another program.
  [[nodiscard]] bool is_as_of(std::int64_t wall_ns) const {
    struct stat info {};
    if (::fstat(fd_.get(), &info) != 0) return false;
    return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec < wall_ns;
  }
  [[nodiscard]] std::optional<std::uint64_t> address_of(std::uint64_t offset) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == PT_LOAD && offset >= segment.p_offset &&
          offset - segment.p_offset < segment.p_filesz)
        return offset - segment.p_offset + segment.p_vaddr;
    }
    return std::nullopt;
  }

 private:
  OwnedFd fd_;
  std::vector<Elf64_Phdr> segments_;
};

// Inline functions of these headers are not the program's own lines.
bool is_rdma_header(std::string_view line) {
  return line.find("/infiniband/") != std::string_view::npos ||
         line.find("/rdma/rdma_") != std::string_view::npos;
}

// Some versions of addr2line name the including file, so the name decides, too.
bool is_rdma_function(std::string_view name) {
  return name.starts_with("ibv_") || name.starts_with("___ibv_") || name.starts_with("__ibv_");
}

std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// "End::connect" for "(anonymous namespace)::End::connect(Tuning const&) const".
std::string short_name(std::string_view function) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::", kOperator = "operator()";
  std::string name(function);
  for (std::size_t at = name.find(kAnonymous); at != std::string::npos; at = name.find(kAnonymous))
    name.erase(at, kAnonymous.size());
  const std::size_t call = name.find(kOperator);
  name.resize(std::min(name.size(), name.find('(', call == std::string::npos ? 0 : call + kOperator.size())));
  return name;
}

// addr2line prints two lines for a function, the innermost first: its name and its place. Takes the first of
// the program's own, or at least the name of the function.
void take_own_line(std::string_view output, SourceLine& found) {
  while (!output.empty()) {
    const std::string_view function = next_line(output);
    std::string_view line = next_line(output);
    line = line.substr(0, line.find(" (discriminator"));
    const bool is_line =
        !line.empty() && !line.starts_with("??") && !line.ends_with(":?") && !line.ends_with(":0");
    if (is_rdma_function(function) || is_rdma_header(line)) continue;
    if (function != "??" && (is_line || found.function.empty()))
      found.function = printable(short_name(function));
    if (!is_line) continue;
    found.line = printable(line);
    return;
  }
}

SourceLine resolved_line(const host::Explained& said) {
  SourceLine found;
  const Module module(said.place.module);
  const auto inner = module.address_of(said.place.inner);
  found.module = printable(said.place.module);
  found.address = inner.value_or(said.place.inner);
  if (!inner || !module.is_as_of(said.first_ns)) return found;
  // A return address is behind the call: one byte before it is the call.
  std::vector<std::string> words = {
      "addr2line", "-C", "-f", "-i", "-e", said.place.module, formatted("{:#x}", *inner - 1)};
  if (const auto outer = module.address_of(said.place.outer); outer && said.place.outer != 0)
    words.push_back(formatted("{:#x}", *outer - 1));
  const OwnCommandResult resolved = run_program(words, kResolveTimeout);
  if (resolved.done) take_own_line(resolved.text, found);
  return found;
}

}  // namespace

// The live page asks four times a second.
SourceLine source_line_of(const host::Explained& said) {
  constexpr std::size_t kKeptMax = 1024;
  if (said.place.module[0] == '\0') return {};
  static std::map<std::tuple<std::string, std::uint64_t, std::uint64_t, std::int64_t>, SourceLine> kept;
  if (kept.size() >= kKeptMax) kept.clear();
  const auto [entry, is_new] =
      kept.try_emplace({said.place.module, said.place.inner, said.place.outer, said.first_ns});
  if (is_new) entry->second = resolved_line(said);
  return entry->second;
}

std::string source_line_text(const host::Explained& said, Language language) {
  const SourceLine found = source_line_of(said);
  if (found.module.empty()) return "";
  std::string place = found.line.empty() ? formatted("{}+{:#x}", found.module, found.address) : found.line;
  if (!found.function.empty()) place += formatted(" ({})", found.function);
  const bool posted = said.facts.kind == host::ExplainFacts::kSend;
  if (language == Language::kChinese) return formatted("{}位置：{}", posted ? "投递" : "调用", place);
  return formatted("{} at {}.", posted ? "Posted" : "Called", place);
}

}  // namespace rrdma::tools
