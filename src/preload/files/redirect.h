// Redirect: which file is meant when a program names one of a device: paths under /sys/class/infiniband,
// /sys/class/infiniband_verbs, /sys/devices/virtual/infiniband* and /dev/infiniband lead into a tree of our own
// (device_tree.h) where they name one of our devices, or the folder itself. All others stay as they are:
// the machine's real devices are not touched.
//
// Threads: any. Does not change errno.
#pragma once

#include <climits>
#include <cstring>

namespace rrdma::files {

class Redirect {
 public:
  explicit Redirect(const char* path) : path_(path) {
    if (may_concern(path)) follow();
  }
  // What to open instead, or what the program named.
  [[nodiscard]] const char* path() const { return path_; }
  // What the C library made of path(), as the program must see it: without the name of our tree. Null stays null.
  [[nodiscard]] char* resolved(char* found) const;

 private:
  // Most calls of a program end here.
  static bool may_concern(const char* path) {
    if (path == nullptr || path[0] != '/') return false;
    if (path[1] == 's') {
      return std::strncmp(path, "/sys/", 5) == 0 && (std::strstr(path, "/infiniband") != nullptr ||
                                                     (std::strstr(path, "/pci") != nullptr && plans_pci()));
    }
    return path[1] == 'd' && std::strncmp(path, "/dev/infiniband", 15) == 0;
  }
  // Whether a device has a place among those of PCI.
  static bool plans_pci();
  void follow();

  const char* path_;
  std::size_t root_size_ = 0;  // of the tree's name in text_, where the path leads into it
  char text_[PATH_MAX];
};

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
