// Redirect: which file is meant when a program names one of a device: paths under /sys/class/infiniband,
// /sys/class/infiniband_verbs, /sys/devices/virtual/infiniband* and /dev/infiniband lead into a tree of our own
// (device_tree.h) where they name one of our devices, or the folder itself. All others stay as they are:
// the machine's real devices are not touched. A program that has changed to a folder of the tree, or opened one, names what
// is there by relative paths: they are completed first (seen_path.h).
//
// Threads: any. Does not change errno.
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
  // As the system calls with a folder have it: `path` may be relative to it.
  Redirect(int folder, const char* path) : path_(path) {
    if (may_concern(path)) {
      follow(path);
    } else if (path != nullptr && path[0] != '/' && path[0] != '\0' && may_be_inside(folder)) {
      follow_from(folder);
    }
  }
  // What to open instead, or what the program named.
  [[nodiscard]] const char* path() const { return path_; }
  [[nodiscard]] bool leads_into_tree() const { return inside_; }

  // The program's working folder may be in our tree from now on.
  static void enter_tree() { works_inside.store(true, std::memory_order_relaxed); }
  // False: it certainly is not.
  [[nodiscard]] static bool may_work_inside() { return works_inside.load(std::memory_order_relaxed); }
  // Whether a path was led into the tree: only then can a descriptor of the program be one of a folder there.
  [[nodiscard]] static bool has_led() { return led.load(std::memory_order_relaxed); }

 private:
  // Most calls of a program end here.
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
  // Whether a device has a place among those of PCI.
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

// The real path of the working folder (AT_FDCWD) or of an open folder; empty where the kernel does not say.
[[nodiscard]] std::string real_folder(int folder);

// What the C library says of a place, as the program must see it: without the name of our tree. Null stays null.
char* as_seen(char* found);
// The same for `size` characters without an end; the new size.
std::size_t as_seen(char* found, std::size_t size);

// While one lives, its thread sees the files of the machine: for calls into the real libibverbs, which would
// take our devices for its own.
class MachineFiles {
 public:
  MachineFiles();
  ~MachineFiles();
  MachineFiles(const MachineFiles&) = delete;
  MachineFiles& operator=(const MachineFiles&) = delete;
};

}  // namespace rrdma::files
