// Memory that does not live as long as its registration, and copies that take long: error completions or
// patience, never a crash, and never a byte in memory of somebody else.
#pragma once

#include <string>

#include "talk.h"

namespace gpu {

// Memory that is released while it is registered: error completions, and both processes live on.
void check_released(const Cuda& cuda, const Device& device, const Companion& companion, Where where);

// The same, if other memory has the address afterwards. REQUIRES: memory of cuMemAlloc.
void check_reused(const Cuda& cuda, const Device& device, const Companion& companion);

// A copy between two places of the device waits behind a kernel until the file `gate` exists. Requests of
// other QPs go on, and so do deregistration and the closing of a device.
void check_gate(const Cuda& cuda, const std::string& gate, const Companion& companion);

}  // namespace gpu
