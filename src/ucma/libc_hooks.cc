// The functions of the C library through which librdmacm reaches the kernel's rdma_cm file: open, fstat,
// write, close. Everything that is not that file goes on to the next definition (librspreload's or the C
// library's), open by way of the files door (files/redirect.h). These symbols stay unversioned.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "base/raw_syscall.h"
#include "files/next_symbol.h"
#include "files/redirect.h"
#include "ucma/station.h"

#define RRDMA_HOOK extern "C" __attribute__((visibility("default")))

namespace {

using rrdma::files::NextSymbol;
using rrdma::files::Redirect;
using rrdma::ucma::Station;

constexpr const char* kFile = "/dev/infiniband/rdma_cm";
constexpr const char* kOldFile = "/dev/rdma_cm";

bool is_rdma_cm(const char* path) {
  return path != nullptr && path[0] == '/' && (std::strcmp(path, kFile) == 0 || std::strcmp(path, kOldFile) == 0);
}

constinit NextSymbol<int(const char*, int, ...)> next_open("open");
constinit NextSymbol<int(const char*, int, ...)> next_open64("open64");
constinit NextSymbol<int(int, const char*, int, ...)> next_openat("openat");
constinit NextSymbol<int(int, const char*, int, ...)> next_openat64("openat64");
constinit NextSymbol<int(const char*, int)> next_open_2("__open_2");
constinit NextSymbol<int(const char*, int)> next_open64_2("__open64_2");
constinit NextSymbol<int(int, const char*, int)> next_openat_2("__openat_2");
constinit NextSymbol<int(int, const char*, int)> next_openat64_2("__openat64_2");
constinit NextSymbol<ssize_t(int, const void*, size_t)> next_write("write");
constinit NextSymbol<int(int)> next_close("close");
constinit NextSymbol<int(int, struct stat*)> next_fstat("fstat");
constinit NextSymbol<int(int, struct stat64*)> next_fstat64("fstat64");
constinit NextSymbol<int(int, int, struct stat*)> next_fxstat("__fxstat");
constinit NextSymbol<int(int, int, struct stat64*)> next_fxstat64("__fxstat64");

__attribute__((constructor)) void look_up_all() {
  (void)*next_open, (void)*next_open64, (void)*next_openat, (void)*next_openat64, (void)*next_open_2, (void)*next_open64_2, (void)*next_openat_2, (void)*next_openat64_2;
  (void)*next_write, (void)*next_close, (void)*next_fstat, (void)*next_fstat64, (void)*next_fxstat, (void)*next_fxstat64;
}

// A descriptor of ours, as the kernel's character device would look.
void describe_channel(struct stat* status) {
  std::memset(status, 0, sizeof *status);
  status->st_mode = S_IFCHR | 0666;
  status->st_rdev = ::makedev(10, 58);
  status->st_nlink = 1;
  status->st_blksize = 4096;
}

mode_t mode_argument(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

#define RRDMA_HOOK_OPEN(name)                                                  \
  RRDMA_HOOK int name(const char* path, int flags, ...) {                      \
    if (is_rdma_cm(path)) return Station::instance().open(flags);              \
    va_list arguments;                                                         \
    va_start(arguments, flags);                                                \
    const mode_t mode = mode_argument(flags, arguments);                       \
    va_end(arguments);                                                         \
    return (*next_##name)(Redirect(path).path(), flags, mode);                 \
  }

#define RRDMA_HOOK_OPENAT(name)                                                \
  RRDMA_HOOK int name(int directory, const char* path, int flags, ...) {       \
    if (is_rdma_cm(path)) return Station::instance().open(flags);              \
    va_list arguments;                                                         \
    va_start(arguments, flags);                                                \
    const mode_t mode = mode_argument(flags, arguments);                       \
    va_end(arguments);                                                         \
    return (*next_##name)(directory, Redirect(path).path(), flags, mode);      \
  }

RRDMA_HOOK_OPEN(open)
RRDMA_HOOK_OPEN(open64)
RRDMA_HOOK_OPENAT(openat)
RRDMA_HOOK_OPENAT(openat64)

// What open() becomes in programs that were built with _FORTIFY_SOURCE.
RRDMA_HOOK int __open_2(const char* path, int flags) {
  if (is_rdma_cm(path)) return Station::instance().open(flags);
  return (*next_open_2)(Redirect(path).path(), flags);
}

RRDMA_HOOK int __open64_2(const char* path, int flags) {
  if (is_rdma_cm(path)) return Station::instance().open(flags);
  return (*next_open64_2)(Redirect(path).path(), flags);
}

RRDMA_HOOK int __openat_2(int directory, const char* path, int flags) {
  if (is_rdma_cm(path)) return Station::instance().open(flags);
  return (*next_openat_2)(directory, Redirect(path).path(), flags);
}

RRDMA_HOOK int __openat64_2(int directory, const char* path, int flags) {
  if (is_rdma_cm(path)) return Station::instance().open(flags);
  return (*next_openat64_2)(directory, Redirect(path).path(), flags);
}

RRDMA_HOOK ssize_t write(int fd, const void* data, size_t size) {
  if (Station::may_be_channel(fd)) return Station::instance().write(fd, data, size);
  auto* const next = *next_write;
  return next != nullptr ? next(fd, data, size) : rrdma::raw::write(fd, data, size);
}

RRDMA_HOOK int close(int fd) {
  if (Station::may_be_channel(fd)) {
    Station::instance().close(fd);
    return rrdma::raw::close(fd);
  }
  auto* const next = *next_close;
  return next != nullptr ? next(fd) : rrdma::raw::close(fd);
}

RRDMA_HOOK int fstat(int fd, struct stat* status) {
  if (Station::may_be_channel(fd)) {
    describe_channel(status);
    return 0;
  }
  auto* const next = *next_fstat;
  return next != nullptr ? next(fd, status) : static_cast<int>(::syscall(SYS_fstat, fd, status));
}

RRDMA_HOOK int fstat64(int fd, struct stat64* status) {
  static_assert(sizeof(struct stat) == sizeof(struct stat64));
  if (Station::may_be_channel(fd)) {
    describe_channel(reinterpret_cast<struct stat*>(status));
    return 0;
  }
  auto* const next = *next_fstat64;
  return next != nullptr ? next(fd, status) : static_cast<int>(::syscall(SYS_fstat, fd, status));
}

// What fstat() is in programs that were built against a C library before 2.33.
RRDMA_HOOK int __fxstat(int version, int fd, struct stat* status) {
  if (Station::may_be_channel(fd)) {
    describe_channel(status);
    return 0;
  }
  auto* const next = *next_fxstat;
  return next != nullptr ? next(version, fd, status) : static_cast<int>(::syscall(SYS_fstat, fd, status));
}

RRDMA_HOOK int __fxstat64(int version, int fd, struct stat64* status) {
  if (Station::may_be_channel(fd)) {
    describe_channel(reinterpret_cast<struct stat*>(status));
    return 0;
  }
  auto* const next = *next_fxstat64;
  return next != nullptr ? next(version, fd, status) : static_cast<int>(::syscall(SYS_fstat, fd, status));
}
