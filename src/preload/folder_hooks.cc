// Hooks of the C library functions by which a program moves in our file tree and asks for its working
// directory: chdir, fchdir, getcwd and related functions. Also glob, which reads folders inside the C library
// and bypasses hooks. The working directory of such a program is really a folder of our tree, so that any
// child inherits it.
#include <dirent.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/next_symbol.h"
#include "preload/files/redirect.h"
#include "preload/files/seen_path.h"

#define RRDMA_HOOK extern "C" __attribute__((visibility("default")))

namespace {

using rrdma::NextSymbol;
using rrdma::files::real_folder;
using rrdma::files::Redirect;
using rrdma::files::seen_path;

using GlobError = int(const char*, int);

constinit NextSymbol<int(const char*)> next_chdir("chdir");
constinit NextSymbol<int(int)> next_fchdir("fchdir");
constinit NextSymbol<char*(char*, size_t)> next_getcwd("getcwd");
constinit NextSymbol<char*(char*, size_t, size_t)> next_getcwd_chk("__getcwd_chk");
constinit NextSymbol<char*()> next_get_current_dir_name("get_current_dir_name");
constinit NextSymbol<int(const char*, int, GlobError*, glob_t*)> next_glob("glob");
constinit NextSymbol<int(const char*, int, GlobError*, glob64_t*)> next_glob64("glob64");
constinit NextSymbol<FILE*(const char*, const char*, FILE*)> next_freopen("freopen");
constinit NextSymbol<FILE*(const char*, const char*, FILE*)> next_freopen64("freopen64");

// The program may have been started in a folder of the tree.
__attribute__((constructor)) void look_where_we_are() {
  static_cast<void>(*next_chdir);
  static_cast<void>(*next_fchdir);
  static_cast<void>(*next_getcwd);
  static_cast<void>(*next_getcwd_chk);
  static_cast<void>(*next_get_current_dir_name);
  static_cast<void>(*next_glob);
  static_cast<void>(*next_glob64);
  static_cast<void>(*next_freopen);
  static_cast<void>(*next_freopen64);
  if (!seen_path(real_folder(AT_FDCWD)).empty()) Redirect::enter_tree();
}

// The working directory if it is in the tree, else empty. Preserves errno.
std::string seen_working_folder() {
  if (!Redirect::may_work_inside()) return {};
  const int saved = errno;
  const std::string real = real_folder(AT_FDCWD);
  errno = saved;
  return std::string(seen_path(real));
}

char* write_folder(const std::string& seen, char* out, size_t size) {
  if (out == nullptr) {
    if (size != 0 && size <= seen.size()) {
      errno = ERANGE;
      return nullptr;
    }
    out = static_cast<char*>(malloc(size != 0 ? size : seen.size() + 1));
    if (out == nullptr) return nullptr;
  } else if (size <= seen.size()) {
    errno = size == 0 ? EINVAL : ERANGE;
    return nullptr;
  }
  std::memcpy(out, seen.c_str(), seen.size() + 1);
  return out;
}

bool concerns_glob(const char* pattern, int flags) {
  if (pattern == nullptr || (flags & GLOB_ALTDIRFUNC) != 0) return false;
  const bool device_files = std::strncmp(pattern, "/sys/", 5) == 0 || std::strncmp(pattern, "/dev/", 5) == 0;
  return device_files || (pattern[0] != '/' && Redirect::may_work_inside());
}

void close_folder(void* folder) { closedir(static_cast<DIR*>(folder)); }
void* open_folder(const char* path) { return opendir(path); }

}  // namespace

RRDMA_HOOK int chdir(const char* path) {
  const Redirect redirect(path);
  const int result = (*next_chdir)(redirect.path());
  if (result == 0 && redirect.leads_into_tree()) Redirect::enter_tree();
  return result;
}

RRDMA_HOOK int fchdir(int folder) {
  const int result = (*next_fchdir)(folder);
  if (result == 0 && Redirect::has_led()) Redirect::enter_tree();
  return result;
}

RRDMA_HOOK char* getcwd(char* out, size_t size) {
  const std::string seen = seen_working_folder();
  return seen.empty() ? (*next_getcwd)(out, size) : write_folder(seen, out, size);
}

RRDMA_HOOK char* __getcwd_chk(char* out, size_t size, size_t room) {
  const std::string seen = seen_working_folder();
  return seen.empty() || size > room ? (*next_getcwd_chk)(out, size, room) : write_folder(seen, out, size);
}

RRDMA_HOOK char* get_current_dir_name() {
  const std::string seen = seen_working_folder();
  return seen.empty() ? (*next_get_current_dir_name)() : write_folder(seen, nullptr, 0);
}

RRDMA_HOOK int glob(const char* pattern, int flags, GlobError* on_error, glob_t* found) {
  if (!concerns_glob(pattern, flags) || found == nullptr)
    return (*next_glob)(pattern, flags, on_error, found);
  found->gl_closedir = close_folder;
  found->gl_readdir = [](void* folder) { return readdir(static_cast<DIR*>(folder)); };
  found->gl_opendir = open_folder;
  found->gl_lstat = lstat;
  found->gl_stat = stat;
  const int result = (*next_glob)(pattern, flags | GLOB_ALTDIRFUNC, on_error, found);
  found->gl_flags &= ~GLOB_ALTDIRFUNC;
  return result;
}

RRDMA_HOOK int glob64(const char* pattern, int flags, GlobError* on_error, glob64_t* found) {
  if (!concerns_glob(pattern, flags) || found == nullptr)
    return (*next_glob64)(pattern, flags, on_error, found);
  found->gl_closedir = close_folder;
  found->gl_readdir = [](void* folder) { return readdir64(static_cast<DIR*>(folder)); };
  found->gl_opendir = open_folder;
  found->gl_lstat = lstat64;
  found->gl_stat = stat64;
  const int result = (*next_glob64)(pattern, flags | GLOB_ALTDIRFUNC, on_error, found);
  found->gl_flags &= ~GLOB_ALTDIRFUNC;
  return result;
}

RRDMA_HOOK FILE* freopen(const char* path, const char* mode, FILE* file) {
  return (*next_freopen)(Redirect(path).path(), mode, file);
}
RRDMA_HOOK FILE* freopen64(const char* path, const char* mode, FILE* file) {
  return (*next_freopen64)(Redirect(path).path(), mode, file);
}
