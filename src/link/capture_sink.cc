#include "link/capture_sink.h"

#include <cerrno>
#include <utility>

#include "base/raw_syscall.h"

namespace rrdma::link {

Result<std::unique_ptr<CaptureFile>, int> CaptureFile::open(const char* path, std::uint64_t octets_max) {
  OwnedFd file = lifted(raw::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) return Failure{errno};
  return std::unique_ptr<CaptureFile>(new CaptureFile(std::move(file), octets_max));
}

std::unique_ptr<CaptureFile> CaptureFile::adopt(OwnedFd file, std::uint64_t octets_max) {
  return std::unique_ptr<CaptureFile>(new CaptureFile(std::move(file), octets_max));
}

CaptureFile::CaptureFile(OwnedFd file, std::uint64_t octets_max)
    : file_(std::move(file)), octets_max_(octets_max) {
  buffer_.reserve(kBufferOctets);
}

void CaptureFile::append(Octets block) {
  if (octets_ + block.size() > octets_max_) {
    ++lost_;
    return;
  }
  if (buffer_.size() + block.size() > kBufferOctets) write_out();
  buffer_.insert(buffer_.end(), block.begin(), block.end());
  octets_ += block.size();
  ++buffered_blocks_;
}

void CaptureFile::write_out() {
  Octets rest(buffer_);
  while (!rest.empty()) {
    const ssize_t written = raw::write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      lost_ += buffered_blocks_;
      break;
    }
    rest = rest.subspan(static_cast<std::size_t>(written));
  }
  buffer_.clear();
  buffered_blocks_ = 0;
}

}  // namespace rrdma::link
