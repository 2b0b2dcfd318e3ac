// Hooks of the C library functions that programs use to reach RRDMA. librdmacm reaches the kernel's rdma_cm
// file (rdma_cm/station.h) through open, fstat, write and close (descriptor_hooks.cc). Programs read a
// device's files through open and all the others, each of which redirects the path (files/redirect.h).
// Everything else goes on to the next definition (librspreload's or the C library's). These symbols stay
// unversioned.
//
// Calls inside the C library (nftw, fts) bypass the hooks; those of programs, of Python and of C++ do not.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "base/next_symbol.h"
#include "base/raw_syscall.h"
#include "preload/files/redirect.h"
#include "preload/rdma_cm/device_number.h"
#include "preload/rdma_cm/station.h"

#define RRDMA_HOOK extern "C" __attribute__((visibility("default")))

namespace {

using rrdma::NextSymbol;
using rrdma::files::as_seen;
using rrdma::files::Redirect;
using rrdma::rdma_cm::Station;

constexpr const char* kFile = "/dev/infiniband/rdma_cm";
constexpr const char* kOldFile = "/dev/rdma_cm";

bool is_rdma_cm(const char* path) {
  return path != nullptr && path[0] == '/' &&
         (std::strcmp(path, kFile) == 0 || std::strcmp(path, kOldFile) == 0);
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
constinit NextSymbol<int(int, struct stat*)> next_fstat("fstat");
constinit NextSymbol<int(int, struct stat64*)> next_fstat64("fstat64");
constinit NextSymbol<int(int, int, struct stat*)> next_fxstat("__fxstat");
constinit NextSymbol<int(int, int, struct stat64*)> next_fxstat64("__fxstat64");

using Filter = int(const struct dirent*);
using Filter64 = int(const struct dirent64*);
using Order = int(const struct dirent**, const struct dirent**);
using Order64 = int(const struct dirent64**, const struct dirent64**);

constinit NextSymbol<int(const char*, struct stat*)> next_stat("stat");
constinit NextSymbol<int(const char*, struct stat64*)> next_stat64("stat64");
constinit NextSymbol<int(const char*, struct stat*)> next_lstat("lstat");
constinit NextSymbol<int(const char*, struct stat64*)> next_lstat64("lstat64");
constinit NextSymbol<int(int, const char*, struct stat*, int)> next_fstatat("fstatat");
constinit NextSymbol<int(int, const char*, struct stat64*, int)> next_fstatat64("fstatat64");
constinit NextSymbol<int(int, const char*, struct stat*)> next_xstat("__xstat");
constinit NextSymbol<int(int, const char*, struct stat64*)> next_xstat64("__xstat64");
constinit NextSymbol<int(int, const char*, struct stat*)> next_lxstat("__lxstat");
constinit NextSymbol<int(int, const char*, struct stat64*)> next_lxstat64("__lxstat64");
constinit NextSymbol<int(int, int, const char*, struct stat*, int)> next_fxstatat("__fxstatat");
constinit NextSymbol<int(int, int, const char*, struct stat64*, int)> next_fxstatat64("__fxstatat64");
constinit NextSymbol<int(int, const char*, int, unsigned, struct statx*)> next_statx("statx");
constinit NextSymbol<int(const char*, int)> next_access("access");
constinit NextSymbol<int(const char*, int)> next_eaccess("eaccess");
constinit NextSymbol<int(const char*, int)> next_euidaccess("euidaccess");
constinit NextSymbol<int(int, const char*, int, int)> next_faccessat("faccessat");
constinit NextSymbol<FILE*(const char*, const char*)> next_fopen("fopen");
constinit NextSymbol<FILE*(const char*, const char*)> next_fopen64("fopen64");
constinit NextSymbol<DIR*(const char*)> next_opendir("opendir");
constinit NextSymbol<int(const char*, struct dirent***, Filter*, Order*)> next_scandir("scandir");
constinit NextSymbol<int(const char*, struct dirent64***, Filter64*, Order64*)> next_scandir64("scandir64");
constinit NextSymbol<ssize_t(const char*, char*, size_t)> next_readlink("readlink");
constinit NextSymbol<ssize_t(const char*, char*, size_t, size_t)> next_readlink_chk("__readlink_chk");
constinit NextSymbol<ssize_t(int, const char*, char*, size_t)> next_readlinkat("readlinkat");
constinit NextSymbol<ssize_t(int, const char*, char*, size_t, size_t)> next_readlinkat_chk(
    "__readlinkat_chk");
constinit NextSymbol<char*(const char*, char*)> next_realpath("realpath");
constinit NextSymbol<char*(const char*, char*, size_t)> next_realpath_chk("__realpath_chk");
constinit NextSymbol<char*(const char*)> next_canonicalize("canonicalize_file_name");
constinit NextSymbol<ssize_t(const char*, const char*, void*, size_t)> next_getxattr("getxattr");
constinit NextSymbol<ssize_t(const char*, const char*, void*, size_t)> next_lgetxattr("lgetxattr");

template <typename... Symbols>
void look_up(Symbols&... symbols) {
  (static_cast<void>(*symbols), ...);
}

__attribute__((constructor)) void look_up_all() {
  look_up(next_open, next_open64, next_openat, next_openat64, next_open_2, next_open64_2, next_openat_2,
          next_openat64_2);
  look_up(next_write, next_fstat, next_fstat64, next_fxstat, next_fxstat64);
  look_up(next_stat, next_stat64, next_lstat, next_lstat64, next_fstatat, next_fstatat64, next_xstat,
          next_xstat64, next_lxstat, next_lxstat64, next_fxstatat, next_fxstatat64, next_statx);
  look_up(next_access, next_eaccess, next_euidaccess, next_faccessat, next_fopen, next_fopen64, next_opendir,
          next_scandir, next_scandir64);
  look_up(next_readlink, next_readlink_chk, next_readlinkat, next_readlinkat_chk, next_realpath,
          next_realpath_chk, next_canonicalize, next_getxattr, next_lgetxattr);
}

// If the kernel has its own rdma_cm, librdmacm learns its device number by netlink and rejects a file with
// another number.
dev_t rdma_cm_number() {
  static const dev_t number = [] {
    const rrdma::files::MachineFiles only;
    const int fd = static_cast<int>(rrdma::raw::open("/sys/class/misc/rdma_cm/dev", O_RDONLY | O_CLOEXEC));
    char text[32] = {};
    if (fd >= 0) {
      static_cast<void>(rrdma::raw::read(fd, text, sizeof text - 1));
      rrdma::raw::close(fd);
    }
    return rrdma::rdma_cm::parse_device_number(text, ::makedev(10, 58));
  }();
  return number;
}

// For glibc before 2.33, which does not export stat(), lstat() and fstatat(). The library's own code calls
// them.
int raw_stat_at(int folder, const char* path, void* status, int flags) {
  return static_cast<int>(::syscall(SYS_newfstatat, folder, path, status, flags));
}

// Describes one of our descriptors like the kernel's character device.
void describe_channel(struct stat* status) {
  std::memset(status, 0, sizeof *status);
  status->st_mode = S_IFCHR | 0666;
  status->st_rdev = rdma_cm_number();
  status->st_nlink = 1;
  status->st_blksize = 4096;
}

// /proc/self/cwd and /proc/self/fd/N name real folders.
ssize_t seen_link(const char* path, char* target, ssize_t size) {
  if (size <= 0 || path == nullptr || std::strncmp(path, "/proc/", 6) != 0) return size;
  return static_cast<ssize_t>(as_seen(target, static_cast<std::size_t>(size)));
}

mode_t mode_argument(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

#define RRDMA_HOOK_OPEN(name)                                     \
  RRDMA_HOOK int name(const char* path, int flags, ...) {         \
    if (is_rdma_cm(path)) return Station::instance().open(flags); \
    va_list arguments;                                            \
    va_start(arguments, flags);                                   \
    const mode_t mode = mode_argument(flags, arguments);          \
    va_end(arguments);                                            \
    return (*next_##name)(Redirect(path).path(), flags, mode);    \
  }

#define RRDMA_HOOK_OPENAT(name)                                                      \
  RRDMA_HOOK int name(int directory, const char* path, int flags, ...) {             \
    if (is_rdma_cm(path)) return Station::instance().open(flags);                    \
    va_list arguments;                                                               \
    va_start(arguments, flags);                                                      \
    const mode_t mode = mode_argument(flags, arguments);                             \
    va_end(arguments);                                                               \
    return (*next_##name)(directory, Redirect(directory, path).path(), flags, mode); \
  }

RRDMA_HOOK_OPEN(open)
RRDMA_HOOK_OPEN(open64)
RRDMA_HOOK_OPENAT(openat)
RRDMA_HOOK_OPENAT(openat64)

// open() in programs that were built with _FORTIFY_SOURCE.
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
  return (*next_openat_2)(directory, Redirect(directory, path).path(), flags);
}

RRDMA_HOOK int __openat64_2(int directory, const char* path, int flags) {
  if (is_rdma_cm(path)) return Station::instance().open(flags);
  return (*next_openat64_2)(directory, Redirect(directory, path).path(), flags);
}

RRDMA_HOOK ssize_t write(int fd, const void* data, size_t size) {
  if (Station::may_be_channel(fd)) return Station::instance().write(fd, data, size);
  auto* const next = *next_write;
  return next != nullptr ? next(fd, data, size) : rrdma::raw::write(fd, data, size);
}

RRDMA_HOOK int fstat(int fd, struct stat* status) {
  if (Station::is_channel(fd)) {
    describe_channel(status);
    return 0;
  }
  auto* const next = *next_fstat;
  return next != nullptr ? next(fd, status) : static_cast<int>(::syscall(SYS_fstat, fd, status));
}

RRDMA_HOOK int fstat64(int fd, struct stat64* status) {
  static_assert(sizeof(struct stat) == sizeof(struct stat64));
  if (Station::is_channel(fd)) {
    describe_channel(reinterpret_cast<struct stat*>(status));
    return 0;
  }
  auto* const next = *next_fstat64;
  return next != nullptr ? next(fd, status) : static_cast<int>(::syscall(SYS_fstat, fd, status));
}

// fstat() in programs that were built against a C library before 2.33.
RRDMA_HOOK int __fxstat(int version, int fd, struct stat* status) {
  if (Station::is_channel(fd)) {
    describe_channel(status);
    return 0;
  }
  auto* const next = *next_fxstat;
  return next != nullptr ? next(version, fd, status) : static_cast<int>(::syscall(SYS_fstat, fd, status));
}

RRDMA_HOOK int __fxstat64(int version, int fd, struct stat64* status) {
  if (Station::is_channel(fd)) {
    describe_channel(reinterpret_cast<struct stat*>(status));
    return 0;
  }
  auto* const next = *next_fxstat64;
  return next != nullptr ? next(version, fd, status) : static_cast<int>(::syscall(SYS_fstat, fd, status));
}

// ---- the files of a device ----

RRDMA_HOOK int stat(const char* path, struct stat* status) {
  const Redirect to(path);
  auto* const next = *next_stat;
  return next != nullptr ? next(to.path(), status) : raw_stat_at(AT_FDCWD, to.path(), status, 0);
}
RRDMA_HOOK int stat64(const char* path, struct stat64* status) {
  const Redirect to(path);
  auto* const next = *next_stat64;
  return next != nullptr ? next(to.path(), status) : raw_stat_at(AT_FDCWD, to.path(), status, 0);
}
RRDMA_HOOK int lstat(const char* path, struct stat* status) {
  const Redirect to(path);
  auto* const next = *next_lstat;
  return next != nullptr ? next(to.path(), status)
                         : raw_stat_at(AT_FDCWD, to.path(), status, AT_SYMLINK_NOFOLLOW);
}
RRDMA_HOOK int lstat64(const char* path, struct stat64* status) {
  const Redirect to(path);
  auto* const next = *next_lstat64;
  return next != nullptr ? next(to.path(), status)
                         : raw_stat_at(AT_FDCWD, to.path(), status, AT_SYMLINK_NOFOLLOW);
}
RRDMA_HOOK int fstatat(int folder, const char* path, struct stat* status, int flags) {
  const Redirect to(folder, path);
  auto* const next = *next_fstatat;
  return next != nullptr ? next(folder, to.path(), status, flags)
                         : raw_stat_at(folder, to.path(), status, flags);
}
RRDMA_HOOK int fstatat64(int folder, const char* path, struct stat64* status, int flags) {
  const Redirect to(folder, path);
  auto* const next = *next_fstatat64;
  return next != nullptr ? next(folder, to.path(), status, flags)
                         : raw_stat_at(folder, to.path(), status, flags);
}
RRDMA_HOOK int statx(int folder, const char* path, int flags, unsigned mask, struct statx* status) {
  return (*next_statx)(folder, Redirect(folder, path).path(), flags, mask, status);
}

// stat() in programs that were built against a C library before 2.33.
RRDMA_HOOK int __xstat(int version, const char* path, struct stat* status) {
  return (*next_xstat)(version, Redirect(path).path(), status);
}
RRDMA_HOOK int __xstat64(int version, const char* path, struct stat64* status) {
  return (*next_xstat64)(version, Redirect(path).path(), status);
}
RRDMA_HOOK int __lxstat(int version, const char* path, struct stat* status) {
  return (*next_lxstat)(version, Redirect(path).path(), status);
}
RRDMA_HOOK int __lxstat64(int version, const char* path, struct stat64* status) {
  return (*next_lxstat64)(version, Redirect(path).path(), status);
}
RRDMA_HOOK int __fxstatat(int version, int folder, const char* path, struct stat* status, int flags) {
  return (*next_fxstatat)(version, folder, Redirect(folder, path).path(), status, flags);
}
RRDMA_HOOK int __fxstatat64(int version, int folder, const char* path, struct stat64* status, int flags) {
  return (*next_fxstatat64)(version, folder, Redirect(folder, path).path(), status, flags);
}

RRDMA_HOOK int access(const char* path, int mode) { return (*next_access)(Redirect(path).path(), mode); }
RRDMA_HOOK int eaccess(const char* path, int mode) { return (*next_eaccess)(Redirect(path).path(), mode); }
RRDMA_HOOK int euidaccess(const char* path, int mode) {
  return (*next_euidaccess)(Redirect(path).path(), mode);
}
RRDMA_HOOK int faccessat(int folder, const char* path, int mode, int flags) {
  return (*next_faccessat)(folder, Redirect(folder, path).path(), mode, flags);
}

RRDMA_HOOK FILE* fopen(const char* path, const char* mode) {
  return (*next_fopen)(Redirect(path).path(), mode);
}
RRDMA_HOOK FILE* fopen64(const char* path, const char* mode) {
  return (*next_fopen64)(Redirect(path).path(), mode);
}
RRDMA_HOOK DIR* opendir(const char* path) { return (*next_opendir)(Redirect(path).path()); }
RRDMA_HOOK int scandir(const char* path, struct dirent*** names, Filter* filter, Order* order) {
  return (*next_scandir)(Redirect(path).path(), names, filter, order);
}
RRDMA_HOOK int scandir64(const char* path, struct dirent64*** names, Filter64* filter, Order64* order) {
  return (*next_scandir64)(Redirect(path).path(), names, filter, order);
}

RRDMA_HOOK ssize_t readlink(const char* path, char* out, size_t size) {
  return seen_link(path, out, (*next_readlink)(Redirect(path).path(), out, size));
}
RRDMA_HOOK ssize_t __readlink_chk(const char* path, char* out, size_t size, size_t room) {
  return seen_link(path, out, (*next_readlink_chk)(Redirect(path).path(), out, size, room));
}
RRDMA_HOOK ssize_t readlinkat(int folder, const char* path, char* out, size_t size) {
  return seen_link(path, out, (*next_readlinkat)(folder, Redirect(folder, path).path(), out, size));
}
RRDMA_HOOK ssize_t __readlinkat_chk(int folder, const char* path, char* out, size_t size, size_t room) {
  return seen_link(path, out, (*next_readlinkat_chk)(folder, Redirect(folder, path).path(), out, size, room));
}
RRDMA_HOOK char* realpath(const char* path, char* out) {
  return as_seen((*next_realpath)(Redirect(path).path(), out));
}
RRDMA_HOOK char* __realpath_chk(const char* path, char* out, size_t room) {
  return as_seen((*next_realpath_chk)(Redirect(path).path(), out, room));
}
RRDMA_HOOK char* canonicalize_file_name(const char* path) {
  return as_seen((*next_canonicalize)(Redirect(path).path()));
}

// `ls -l` calls this for each name.
RRDMA_HOOK ssize_t getxattr(const char* path, const char* name, void* value, size_t size) {
  return (*next_getxattr)(Redirect(path).path(), name, value, size);
}
RRDMA_HOOK ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) {
  return (*next_lgetxattr)(Redirect(path).path(), name, value, size);
}
