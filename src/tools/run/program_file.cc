#include "tools/run/program_file.h"

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/result_try.h"
#include "tools/file_octets.h"

namespace rrdma::tools {
namespace {

constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;
constexpr int kInterpretersMax = 4;

#if defined(__aarch64__)
constexpr std::uint16_t kOwnMachine = EM_AARCH64;
#else
constexpr std::uint16_t kOwnMachine = EM_X86_64;
#endif

Failure<ProgramProblem> not_executable(const std::string& path, const std::string& why) {
  return {ProgramProblem{kNotExecutable, "'" + path + "' cannot be executed: " + why}};
}

bool is_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

Result<std::string, ProgramProblem> find_on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (::access(name.c_str(), F_OK) != 0)
      return Failure{ProgramProblem{kNotFound, "'" + name + "': no such file"}};
    return name;
  }
  const char* variable = std::getenv("PATH");
  std::string_view rest = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  std::string denied;
  for (bool more = true; more;) {
    const std::size_t colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    more = colon != std::string_view::npos;
    if (more) rest.remove_prefix(colon + 1);
    std::string candidate = (folder.empty() ? std::string(".") : std::string(folder)) + "/" + name;
    if (!is_file(candidate)) continue;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    denied = std::move(candidate);
  }
  if (!denied.empty()) return not_executable(denied, "permission denied");
  return Failure{ProgramProblem{kNotFound, "no program '" + name + "' is on the PATH"}};
}

// A structure at an offset of the file, or null.
template <typename T>
const T* at(Octets file, std::uint64_t offset, std::uint64_t count = 1) {
  if (offset > file.size() || count > (file.size() - offset) / sizeof(T)) return nullptr;
  return reinterpret_cast<const T*>(file.data() + offset);
}

std::string_view text_at(Octets file, std::uint64_t offset) {
  if (offset >= file.size()) return {};
  const auto* start = reinterpret_cast<const char*>(file.data() + offset);
  return {start, strnlen(start, file.size() - offset)};
}

// Converts an address of the program to an offset in the file.
std::uint64_t file_offset(std::span<const Elf64_Phdr> segments, std::uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz) {
      return address - segment.p_vaddr + segment.p_offset;
    }
  }
  return ~std::uint64_t{0};
}

bool wants_to_be_first(std::string_view library) {
  return library.starts_with("libasan.so") || library.starts_with("libclang_rt.asan") ||
         library.starts_with("libtsan.so") || library.starts_with("libclang_rt.tsan");
}

void read_needed(Octets file, std::span<const Elf64_Phdr> segments, const Elf64_Phdr& dynamic,
                 ProgramFile& program) {
  const auto count = dynamic.p_filesz / sizeof(Elf64_Dyn);
  const auto* entries = at<Elf64_Dyn>(file, dynamic.p_offset, count);
  if (entries == nullptr) return;
  std::uint64_t strings = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (entries[i].d_tag == DT_STRTAB) strings = file_offset(segments, entries[i].d_un.d_ptr);
  }
  for (std::uint64_t i = 0; i < count && entries[i].d_tag != DT_NULL; ++i) {
    if (entries[i].d_tag != DT_NEEDED) continue;
    const std::string_view library = text_at(file, strings + entries[i].d_un.d_val);
    if (wants_to_be_first(library)) program.sanitizers.emplace_back(library);
  }
}

void read_elf(Octets file, ProgramFile& program) {
  const auto* header = at<Elf64_Ehdr>(file, 0);
  if (header == nullptr || header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != kOwnMachine) {
    program.other_machine = true;
    return;
  }
  const auto* table = at<Elf64_Phdr>(file, header->e_phoff, header->e_phnum);
  if (table == nullptr) return;
  const std::span<const Elf64_Phdr> segments(table, header->e_phnum);
  program.static_linked = true;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_INTERP) {
      program.static_linked = false;
      program.musl = text_at(file, segment.p_offset).find("ld-musl") != std::string_view::npos;
    }
    if (segment.p_type == PT_DYNAMIC) read_needed(file, segments, segment, program);
  }
}

// Whether the kernel gives the program privileges that its caller lacks.
bool gains_privilege(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return false;
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid()) return true;
  if ((status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 && status.st_gid != ::getgid())
    return true;
  return ::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

// The interpreter in the first line of a script.
std::string interpreter_of(Octets file) {
  std::string_view line(reinterpret_cast<const char*>(file.data()) + 2,
                        std::min<std::size_t>(file.size() - 2, 255));
  line = line.substr(0, line.find('\n'));
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return std::string(line.substr(0, line.find_first_of(" \t")));
}

}  // namespace

Result<ProgramFile, ProgramProblem> inspect_program(const std::string& name) {
  auto found = find_on_path(name);
  RRDMA_TRY(found);
  ProgramFile program{.path = *found, .loaded = *found};
  if (!is_file(program.path)) return not_executable(program.path, "it is not a file");
  if (::access(program.path.c_str(), X_OK) != 0) return not_executable(program.path, std::strerror(errno));
  for (int i = 0; i < kInterpretersMax; ++i) {
    program.gains_privilege |= gains_privilege(program.loaded);
    auto file = FileOctets::read(program.loaded);
    if (!file) return program;  // executable but not readable: the kernel decides
    const Octets octets = file->octets();
    if (octets.size() >= 4 && std::memcmp(octets.data(), ELFMAG, SELFMAG) == 0) {
      read_elf(octets, program);
      return program;
    }
    if (octets.size() < 3 || octets[0] != '#' || octets[1] != '!') return program;
    program.loaded = interpreter_of(octets);
    if (!is_file(program.loaded))
      return not_executable(program.path, "its interpreter '" + program.loaded + "' does not exist");
  }
  return program;
}

}  // namespace rrdma::tools
