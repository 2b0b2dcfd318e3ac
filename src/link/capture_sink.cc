#include "link/capture_sink.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/raw_syscall.h"
#include "wire/pcapng_format.h"

namespace rrdma::link {
namespace {

OwnedFd open_file(const std::string& path, int more_flags) {
  return lifted(raw::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | more_flags, 0600));
}

std::uint64_t size_of(const OwnedFd& file) {
  const off_t end = ::lseek(file.get(), 0, SEEK_END);
  return end < 0 ? 0 : static_cast<std::uint64_t>(end);
}

}  // namespace

BlockKind kind_of(Octets block) {
  if (block.size() < 4) return BlockKind::kOther;
  switch (swap_octets(load_be32(block.data()))) {
    case wire::kSectionBlock: return BlockKind::kSection;
    case wire::kInterfaceBlock: return BlockKind::kInterface;
    case wire::kStatisticsBlock: return BlockKind::kStatistics;
    case wire::kEnhancedPacketBlock: return BlockKind::kPacket;
    default: return BlockKind::kOther;
  }
}

Result<std::unique_ptr<CaptureFile>, int> CaptureFile::open(const std::string& path,
                                                            const CaptureLimits& limits,
                                                            std::uint64_t octets_max) {
  std::string name = path;
  OwnedFd file = open_file(name, 0);
  if (!file) return Failure{errno};
  // Files that are rotated belong to one writer.
  if (limits.file_octets != 0 && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    name += "." + std::to_string(raw::getpid());
    file = open_file(name, 0);
    if (!file) return Failure{errno};
  }
  // Tells others that the file is being written (empty_capture_file).
  if (limits.file_octets == 0) (void)::flock(file.get(), LOCK_SH | LOCK_NB);
  auto made = std::unique_ptr<CaptureFile>(new CaptureFile(std::move(file), name, limits, octets_max));
  if (limits.file_octets != 0) made->octets_ = size_of(made->file_);
  return made;
}

int empty_capture_file(const std::string& path) {
  const OwnedFd file(raw::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return errno == ENOENT ? 0 : errno;
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return errno;
  if (!S_ISREG(status.st_mode) || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return 0;
  return raw::ftruncate(file.get(), 0) < 0 ? errno : 0;
}

std::unique_ptr<CaptureFile> CaptureFile::adopt(OwnedFd file, const CaptureLimits& limits) {
  return std::unique_ptr<CaptureFile>(new CaptureFile(std::move(file), "", limits, kOctetsMax));
}

CaptureFile::CaptureFile(OwnedFd file, std::string path, const CaptureLimits& limits,
                         std::uint64_t octets_max)
    : file_(std::move(file)),
      path_(std::move(path)),
      limits_(limits),
      octets_max_(limits.file_octets != 0 ? limits.file_octets : octets_max) {
  buffer_.reserve(kBufferOctets);
}

void CaptureFile::append(Octets block) {
  const BlockKind kind = kind_of(block);
  if (kind == BlockKind::kSection) head_.clear();
  if (kind == BlockKind::kSection || kind == BlockKind::kInterface)
    head_.insert(head_.end(), block.begin(), block.end());
  const bool packet = kind == BlockKind::kPacket;
  if (packet && complete()) return;
  if (octets_ + block.size() > octets_max_ && octets_ != 0 && !begin_next_file()) {
    lost_ += packet ? 1 : 0;
    return;
  }
  put(block);
  if (packet) {
    ++packets_;
    ++buffered_packets_;
  }
}

void CaptureFile::put(Octets block) {
  if (buffer_.size() + block.size() > kBufferOctets) write_out();
  buffer_.insert(buffer_.end(), block.begin(), block.end());
  octets_ += block.size();
  octets_sum_ += block.size();
}

// False if there is no further file.
bool CaptureFile::begin_next_file() {
  if (limits_.file_octets == 0 || path_.empty()) return false;
  write_out();
  const std::uint32_t index = limits_.files_max == 0 ? files_ : files_ % limits_.files_max;
  OwnedFd next = open_file(index == 0 ? path_ : path_ + "." + std::to_string(index), O_TRUNC);
  if (!next) return false;
  file_ = std::move(next);
  ++files_;
  octets_ = 0;
  put(head_);
  return true;
}

void CaptureFile::write_out() {
  Octets rest(buffer_);
  while (!rest.empty()) {
    const ssize_t written = raw::write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      lost_ += buffered_packets_;
      break;
    }
    rest = rest.subspan(static_cast<std::size_t>(written));
  }
  buffer_.clear();
  buffered_packets_ = 0;
}

}  // namespace rrdma::link
