#include "preload/files/excepted.h"

#include <errno.h>
#include <fnmatch.h>

#include <cstdlib>
#include <string>

namespace rrdma::files {

bool is_excepted(std::string_view patterns, const char* program) {
  while (!patterns.empty()) {
    const auto colon = patterns.find(':');
    const std::string pattern(patterns.substr(0, colon));
    if (!pattern.empty() && ::fnmatch(pattern.c_str(), program, 0) == 0) return true;
    patterns.remove_prefix(colon == std::string_view::npos ? patterns.size() : colon + 1);
  }
  return false;
}

bool is_excepted() {
  static const bool excepted = [] {
    const char* patterns = std::getenv("RRDMA_EXCEPT");
    return patterns != nullptr && is_excepted(patterns, program_invocation_short_name);
  }();
  return excepted;
}

}  // namespace rrdma::files
