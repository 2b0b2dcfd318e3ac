#include "tools/file_octets.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tools/interrupt.h"

namespace rrdma::tools {
namespace {

constexpr std::size_t kReadOctets = 1 << 20;

std::string sentence_of(int error) { return std::strerror(error); }

}  // namespace

FileOctets::FileOctets(FileOctets&& other) noexcept
    : mapped_(std::exchange(other.mapped_, {})), copied_(std::move(other.copied_)) {}

FileOctets::~FileOctets() {
  if (!mapped_.empty()) munmap(const_cast<std::uint8_t*>(mapped_.data()), mapped_.size());
}

Result<FileOctets, std::string> FileOctets::read(const std::string& path) {
  if (path == "-") return read_descriptor(STDIN_FILENO);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return Failure{sentence_of(errno)};
  auto contents = read_descriptor(descriptor);
  close(descriptor);
  return contents;
}

Result<FileOctets, std::string> FileOctets::read_descriptor(int descriptor) {
  FileOctets file;
  struct stat about {};
  if (fstat(descriptor, &about) != 0) return Failure{sentence_of(errno)};
  if (S_ISDIR(about.st_mode)) return Failure{sentence_of(EISDIR)};
  // Standard input may be a regular file that was already read in part.
  const bool from_start = lseek(descriptor, 0, SEEK_CUR) == 0;
  if (S_ISREG(about.st_mode) && about.st_size > 0 && from_start) {
    const auto size = static_cast<std::size_t>(about.st_size);
    void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (memory != MAP_FAILED) {
      file.mapped_ = Octets(static_cast<const std::uint8_t*>(memory), size);
      return file;
    }
  }
  std::size_t used = 0;
  for (;;) {
    file.copied_.resize(used + kReadOctets);
    const auto count = ::read(descriptor, file.copied_.data() + used, kReadOctets);
    if (count == 0) break;
    if (count < 0 && errno == EINTR && !interrupted()) continue;
    if (count < 0) return Failure{sentence_of(errno)};
    used += static_cast<std::size_t>(count);
  }
  file.copied_.resize(used);
  return file;
}

}  // namespace rrdma::tools
