#include "host/descriptor_room.h"

#include <sys/eventfd.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/owned_fd.h"

namespace rrdma::host {
namespace {

std::string remedy(int error) {
  if (error != EMFILE && error != ENFILE) return "the machine is short of memory.";
  if (error == ENFILE) return "the whole machine may open no more: raise fs.file-max, or end some programs.";
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return formatted("raise the limit of {} (ulimit -n, LimitNOFILE=), or close some.", limit.rlim_cur);
}

}  // namespace

Result<void, Problem> require_descriptors(unsigned count) {
  std::vector<OwnedFd> taken;
  while (taken.size() < count) {
    OwnedFd one(taken.empty() ? raw::eventfd(0, EFD_CLOEXEC)
                              : raw::fcntl(taken[0].get(), F_DUPFD_CLOEXEC, 3));
    if (!one) break;
    taken.push_back(std::move(one));
  }
  if (taken.size() == count) return {};
  const int error = errno;
  return problem(error,
                 formatted("{} file descriptors are needed here, and this program may open {} more ({}): {}",
                           count, taken.size(), std::strerror(error), remedy(error)));
}

Failure<Problem> out_of_descriptors(int error, std::string_view doing) {
  return problem(error,
                 formatted("no file descriptor for {} ({}): {}", doing, std::strerror(error), remedy(error)));
}

}  // namespace rrdma::host
