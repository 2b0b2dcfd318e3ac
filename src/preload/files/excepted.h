// RRDMA_EXCEPT: programs that keep to the machine's own devices although the library is loaded, for a
// container or machine that loads it into every program (LD_PRELOAD in the image, /etc/ld.so.preload).
#pragma once

#include <string_view>

namespace rrdma::files {

// Whether one of the patterns, separated by colons, matches the name of a program; * and ? as in a shell.
[[nodiscard]] bool is_excepted(std::string_view patterns, const char* program);

// Whether this program is excepted. Read once.
[[nodiscard]] bool is_excepted();

}  // namespace rrdma::files
