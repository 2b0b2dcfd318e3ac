// The verbs libraries, loaded when the first device is asked for. See verbs_library.cc.
#pragma once

#include <string>

#include "rrdma/comm/error.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

// Loads libibverbs and librdmacm. If no hardware device is usable and `software` is set, loads RRDMA below
// them, so that this process has the device rrdma0. `device` is the name that the caller asks for, or empty.
// The first successful call decides for the whole process. Any thread.
Result<void> load_verbs(const std::string& device, bool software);

// Why RRDMA was not loaded. Empty if it was, or was not asked for.
[[nodiscard]] std::string why_no_software_device();

// The file that implements `function`: the name of RRDMA's library, or of a provider.
[[nodiscard]] std::string library_of(const void* function);

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
