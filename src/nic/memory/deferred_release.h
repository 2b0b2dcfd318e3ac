// Calls that give driver resources back may wait for every kernel of the program: cuMemHostUnregister does.
// A lane must not wait for them, because a kernel may wait for the lane. They run here instead, one after the
// other, on a thread that exists while there are any.
#pragma once

#include <functional>

namespace rrdma::nic {

// Runs the call soon, on another thread; here and now if none can be started. Any thread.
void release_later(std::function<void()> call);

}  // namespace rrdma::nic
