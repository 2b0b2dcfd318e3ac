#include "daemon/log.h"

#include "base/raw_syscall.h"

namespace rrdma::daemon {
namespace {

int log_fd = STDERR_FILENO;

}  // namespace

void log_to_file(const char* path) {
  const int fd = raw::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd >= 0) log_fd = fd;
}

void log_line(const std::string& sentence) {
  const std::string line = "rrdmad[" + std::to_string(raw::getpid()) + "]: " + sentence + "\n";
  (void)!raw::write(log_fd, line.data(), line.size());
}

}  // namespace rrdma::daemon
