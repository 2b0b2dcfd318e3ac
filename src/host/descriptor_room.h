// Whether the process may open as many descriptors as it is about to. Asked before, so that at the limit nothing
// is half open, and the program gets an errno and a sentence instead of a device that lacks a part.
#pragma once

#include "base/problem.h"
#include "base/result.h"

namespace rrdma::host {

// EMFILE or ENFILE where there is no room for so many more.
[[nodiscard]] Result<void, Problem> require_descriptors(unsigned count);

}  // namespace rrdma::host
