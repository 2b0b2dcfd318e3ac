// The work to do when the process ends.
#pragma once

namespace rrdma::verbs {

// Sends pending acknowledgements to peers and writes captures. Any thread, also in a signal handler: waits
// for locks, but never for one that the calling thread holds.
void end_of_process();

}  // namespace rrdma::verbs
