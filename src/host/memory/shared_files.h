// SharedFiles: the files behind memory that the program already shares (memfd_create, shm_open, hugetlbfs).
// The memory is mapped MAP_SHARED and the file is open in this process, so another process of this host can
// map the same pages. Anonymous and private memory has no such file. A shared mapping whose descriptors are
// all closed has none within reach.
//
// Threads: one at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/owned_fd.h"

namespace rrdma::host {

class SharedFiles {
 public:
  struct Place {
    int fd = -1;  // our own descriptor for the file, valid until let_go()
    std::uint64_t offset = 0;
  };
  // The file position of the bytes [at, at + length). Release each place that was found with let_go().
  [[nodiscard]] std::optional<Place> find(const void* at, std::size_t length);
  void let_go(const Place& place);

 private:
  struct File {
    dev_t device;
    ino_t inode;
    OwnedFd fd;
    std::size_t places = 0;
  };
  // The entry of the file; null if no descriptor of the process refers to it.
  File* open_file(dev_t device, ino_t inode);

  std::vector<File> files_;
  OwnedFd maps_;  // /proc/self/maps, for queries to the kernel
  bool asks_kernel_ = true;
};

}  // namespace rrdma::host
