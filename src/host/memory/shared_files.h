// SharedFiles: the files behind memory that the program shares already (memfd_create, shm_open, hugetlbfs): mapped
// MAP_SHARED, and open in this process, so that another process of this host can map the same pages. Anonymous and private memory
// has no such file, and a shared mapping whose descriptors are all closed has none at hand.
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
    int fd = -1;  // our own descriptor of the file, good until let_go()
    std::uint64_t offset = 0;
  };
  // Where the octets [at, at + length) lie in a file. Each place that was found is to be let go of.
  [[nodiscard]] std::optional<Place> find(const void* at, std::size_t length);
  void let_go(const Place& place);

 private:
  struct File {
    dev_t device;
    ino_t inode;
    OwnedFd fd;
    std::size_t places = 0;
  };
  // The entry of the file; null where no descriptor of the process is of it.
  File* open_file(dev_t device, ino_t inode);

  std::vector<File> files_;
  OwnedFd maps_;  // /proc/self/maps, to ask the kernel about an address
  bool asks_kernel_ = true;
};

}  // namespace rrdma::host
