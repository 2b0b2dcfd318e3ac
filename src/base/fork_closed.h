// Descriptors that must not live on in a forked child: a connection whose end tells others that this
// process is gone means nothing while a child holds it too. Like O_CLOFORK, which Linux has not got.
#pragma once

namespace rrdma {

// Any thread. Numbers beyond the table (65,536) are not tracked.
void mark_fork_closed(int fd);
void unmark_fork_closed(int fd);

// For the child of a fork: closes what is marked. Async-signal-safe.
void close_marked_after_fork();

}  // namespace rrdma
