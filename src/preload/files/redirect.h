// Redirect: maps a path that a program names to the file to open. Paths under /sys/class/infiniband,
// /sys/class/infiniband_verbs, /sys/devices/virtual/infiniband* and /dev/infiniband lead into a tree of our
// own (device_tree.h) if they name one of our devices, or the folder itself. All others stay unchanged, so
// the machine's real devices are not affected. A program may change into a folder of the tree, or open one,
// and then use relative paths: these are made absolute first (seen_path.h).
//
// Threads: any. Preserves errno.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <climits>
#include <cstring>
#include <string>
#include <string_view>

namespace rrdma::files {

class Redirect {
 public:
  explicit Redirect(const char* path) : Redirect(AT_FDCWD, path) {}
  // Like the *at() system calls: `path` may be relative to `folder`.
  Redirect(int folder, const char* path) : path_(path) {
    if (may_concern(path)) {
      follow(path);
    } else if (path != nullptr && path[0] != '/' && path[0] != '\0' && may_be_inside(folder)) {
      follow_from(folder);
    }
  }
  // The path to open: the redirected one, or the one that the program named.
  [[nodiscard]] const char* path() const { return path_; }
  [[nodiscard]] bool leads_into_tree() const { return inside_; }

  // The program's working directory may be in our tree from now on.
  static void enter_tree() { works_inside.store(true, std::memory_order_relaxed); }
  // False: the working directory is certainly not in the tree.
  [[nodiscard]] static bool may_work_inside() { return works_inside.load(std::memory_order_relaxed); }
  // Whether any path was redirected: only then can a descriptor of the program refer to a folder of the tree.
  [[nodiscard]] static bool has_led() { return led.load(std::memory_order_relaxed); }

 private:
  // The fast path of most calls.
  static bool may_concern(const char* path) {
    if (path == nullptr || path[0] != '/') return false;
    if (path[1] == 's') {
      return std::strncmp(path, "/sys/", 5) == 0 && (std::strstr(path, "/infiniband") != nullptr ||
                                                     (std::strstr(path, "/pci") != nullptr && plans_pci()));
    }
    return path[1] == 'd' && std::strncmp(path, "/dev/", 5) == 0 &&
           std::strstr(path, "/infiniband") != nullptr;
  }
  static bool may_be_inside(int folder) { return folder == AT_FDCWD ? may_work_inside() : has_led(); }
  // Whether a device has a PCI address.
  static bool plans_pci();
  void follow(const char* named);
  void follow_from(int folder);
  void take(std::string_view root, std::string_view path);

  static inline std::atomic<bool> works_inside{false};
  static inline std::atomic<bool> led{false};
  const char* path_;
  bool inside_ = false;
  char text_[PATH_MAX];
};

// The real path of the working directory (AT_FDCWD) or of an open folder; empty if the kernel does not tell.
[[nodiscard]] std::string real_folder(int folder);

// Removes the name of our tree from a path that the C library returned. Null stays null.
char* as_seen(char* found);
// The same for `size` characters without a terminator; returns the new size.
std::size_t as_seen(char* found, std::size_t size);

// During its lifetime, its thread sees the files of the machine. Needed for calls into the real libibverbs,
// which would take our devices for its own.
class MachineFiles {
 public:
  MachineFiles();
  ~MachineFiles();
  MachineFiles(const MachineFiles&) = delete;
  MachineFiles& operator=(const MachineFiles&) = delete;
};
// Whether this thread has one.
[[nodiscard]] bool reads_machine_files();

}  // namespace rrdma::files
