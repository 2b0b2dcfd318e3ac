#include "host/explain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/raw_syscall.h"
#include "host/explain_log.h"

namespace rrdma::host {
namespace {

int threshold() {
  static const int level = [] {
    const char* text = std::getenv("RRDMA_LOG");
    if (text == nullptr) return -1;
    if (std::strcmp(text, "error") == 0) return 0;
    if (std::strcmp(text, "info") == 0) return 1;
    if (std::strcmp(text, "debug") == 0) return 2;
    return -1;
  }();
  return level;
}

}  // namespace

void explain(Severity severity, std::string_view call, std::string_view sentence) noexcept {
  const int saved = errno;
  explain_log().append(severity, call, sentence);
  if (static_cast<int>(severity) <= threshold()) {
    const std::string line = fmt::format("rrdma[{}]: {}: {}\n", ::getpid(), call, sentence);
    static_cast<void>(raw::write(STDERR_FILENO, line.data(), line.size()));
  }
  errno = saved;
}

int fail(int error, std::string_view call, std::string_view sentence) noexcept {
  explain(Severity::kInfo, call, sentence);
  errno = error;
  return error;
}

}  // namespace rrdma::host
