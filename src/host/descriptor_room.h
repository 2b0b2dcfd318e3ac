// Checks in advance whether the process may open the descriptors that it is about to need. At the limit,
// nothing is left half open, and the program gets an errno and a sentence instead of an incomplete device.
#pragma once

#include <string_view>

#include "base/problem.h"
#include "base/result.h"

namespace rrdma::host {

// EMFILE or ENFILE if that many more descriptors are not available.
[[nodiscard]] Result<void, Problem> require_descriptors(unsigned count);

// The problem to report if a descriptor was refused. `error` is EMFILE, ENFILE or ENOMEM; `doing` is its
// purpose ("reading the network interfaces").
[[nodiscard]] Failure<Problem> out_of_descriptors(int error, std::string_view doing);

}  // namespace rrdma::host
