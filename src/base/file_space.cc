#include "base/file_space.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/raw_syscall.h"

namespace rrdma {
namespace {

// For file systems that cannot preallocate (NFS, some FUSE): writing the blocks allocates them.
bool write_zeros(int fd, std::int64_t octets) {
  static constexpr std::array<char, 4096> kZeros{};
  for (std::int64_t at = 0; at < octets;) {
    const auto size = std::min<std::int64_t>(octets - at, kZeros.size());
    const ssize_t written = ::pwrite(fd, kZeros.data(), static_cast<std::size_t>(size), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
  }
  return true;
}

}  // namespace

bool may_be_so_long(std::int64_t octets) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(octets);
}

bool set_length(int fd, std::int64_t octets) {
  if (!may_be_so_long(octets)) {
    errno = EFBIG;
    return false;
  }
  return raw::ftruncate(fd, octets) == 0;
}

bool allocate_file(int fd, std::int64_t octets) {
  if (!set_length(fd, octets)) return false;
  int result = 0;
  do {
    result = ::fallocate(fd, 0, 0, octets);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return true;
  return (errno == EOPNOTSUPP || errno == ENOSYS) && write_zeros(fd, octets);
}

}  // namespace rrdma
