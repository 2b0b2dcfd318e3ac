#include "base/own_descriptors.h"

#include "base/raw_syscall.h"

namespace rrdma {

constinit DescriptorSet own_descriptors;
constinit DescriptorSet fork_closed_descriptors;

void close_marked_after_fork() {
  for (int fd = fork_closed_descriptors.next(0); fd < DescriptorSet::kNumbers;
       fd = fork_closed_descriptors.next(fd + 1)) {
    fork_closed_descriptors.remove(fd);
    own_descriptors.remove(fd);
    raw::close(fd);
  }
}

}  // namespace rrdma
