// Where librrdma.so.1 is: of the same build or installation as this executable.
#pragma once

#include <string>

namespace rrdma::tools {

// Empty if there is none.
[[nodiscard]] std::string find_library();

}  // namespace rrdma::tools
