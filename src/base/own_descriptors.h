// The file descriptors of the process that belong to RRDMA. A program that closes all leftover descriptors
// does not mean ours. If it closed one, its next open() would reuse the number while we still write to it.
// The hooks of close() and related calls check this set.
#pragma once

#include "base/descriptor_set.h"

namespace rrdma {

// Maintained by OwnedFd.
extern DescriptorSet own_descriptors;
// The subset that a forked child must not keep. Peers take the end of such a connection as the end of this
// process, so no child may hold it open. Equivalent to O_CLOFORK, which Linux lacks.
extern DescriptorSet fork_closed_descriptors;

// Closes those descriptors. Call in the child after fork(). Async-signal-safe.
void close_marked_after_fork();

}  // namespace rrdma
