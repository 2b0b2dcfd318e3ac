// What is left to do when the process ends.
#pragma once

namespace rrdma::verbs {

// Peers learn what this process has taken, captures are written. From any thread, also in a signal handler: waits for
// locks, but never for one that the calling thread holds.
void end_of_process();

}  // namespace rrdma::verbs
