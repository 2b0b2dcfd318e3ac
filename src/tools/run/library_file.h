// Finds the libraries to load into programs, from the same build or installation as this executable.
#pragma once

#include <string>

namespace rrdma::tools {

inline constexpr const char* kDeviceLibrary = "librrdma.so.1";
inline constexpr const char* kMemoryLibrary = "librrdma-memory.so.1";  // --share-memory

// Empty if there is none.
[[nodiscard]] std::string find_library(const char* name = kDeviceLibrary);

}  // namespace rrdma::tools
