#include "host/descriptor_room.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/owned_fd.h"

namespace rrdma::host {

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
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return problem(
      error, fmt::format("a device needs {} file descriptors, and this program may open {} more ({}): raise "
                         "the limit of {} (ulimit -n, LimitNOFILE=), or close some.",
                         count, taken.size(), std::strerror(error), limit.rlim_cur));
}

}  // namespace rrdma::host
