// The names under which programs load a library.
#pragma once

#include <string_view>

namespace rrdma::preload {

// Whether `path` names a copy of `library` ("libibverbs"): libibverbs.so, libibverbs.so.1,
// libibverbs-1de1263b.so.1.2, in any folder. False for null.
inline bool is_library(const char* path, std::string_view library) {
  if (path == nullptr) return false;
  std::string_view name(path);
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  if (!name.starts_with(library)) return false;
  name.remove_prefix(library.size());
  if (name.empty() || (name.front() != '.' && name.front() != '-' && name.front() != '_')) return false;
  const auto suffix = name.rfind(".so");
  return suffix != std::string_view::npos &&
         name.find_first_not_of("0123456789.", suffix + 3) == std::string_view::npos;
}

}  // namespace rrdma::preload
