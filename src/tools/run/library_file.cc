#include "tools/run/library_file.h"
#include "host/own_executable.h"

#include <filesystem>

#ifndef RRDMA_LIBRARY_FOLDER
#define RRDMA_LIBRARY_FOLDER "lib"
#endif

namespace rrdma::tools {

std::string find_library(const char* name) {
  std::error_code error;
  const std::filesystem::path own = host::own_executable();
  if (own.empty()) return {};
  const std::filesystem::path prefix = own.parent_path().parent_path();
  for (const char* folder : {"lib", RRDMA_LIBRARY_FOLDER}) {
    const std::filesystem::path candidate = prefix / folder / name;
    if (std::filesystem::exists(candidate, error)) return candidate;
  }
  return {};
}

}  // namespace rrdma::tools
