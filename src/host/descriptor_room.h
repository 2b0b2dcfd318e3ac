// Whether the process may open as many descriptors as it is about to. Asked before, so that at the limit nothing
// is half open, and the program gets an errno and a sentence instead of a device that lacks a part.
#pragma once

#include <string_view>

#include "base/problem.h"
#include "base/result.h"

namespace rrdma::host {

// EMFILE or ENFILE where there is no room for so many more.
[[nodiscard]] Result<void, Problem> require_descriptors(unsigned count);

// What to say where one more was refused: `error` is EMFILE, ENFILE or ENOMEM, `doing` what it was for ("reading the network
// interfaces").
[[nodiscard]] Failure<Problem> out_of_descriptors(int error, std::string_view doing);

}  // namespace rrdma::host
