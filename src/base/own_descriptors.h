// Which descriptors of the process are RRDMA's own. A program that closes "all that is left over" does not mean
// them: it does not know that they are there, and what it opens next would get their numbers while we still
// write to them. The hooks of close() and its kin ask here.
#pragma once

#include "base/descriptor_set.h"

namespace rrdma {

// Kept by OwnedFd.
extern DescriptorSet own_descriptors;
// Those of them that must not live on in a forked child: a connection whose end tells others that this process
// is gone means nothing while a child holds it too. Like O_CLOFORK, which Linux has not got.
extern DescriptorSet fork_closed_descriptors;

// For the child of a fork: closes those. Async-signal-safe.
void close_marked_after_fork();

}  // namespace rrdma
