// Descriptors that arrive in messages are anybody's. Messages pass files in memory, unix sockets and UDP
// sockets. To close anything else may take as long as its owner likes: a file of a FUSE server, a TCP socket
// that lingers.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/owned_fd.h"

namespace rrdma::control {

[[nodiscard]] inline bool closes_at_once(int fd) {
  if (raw::fcntl(fd, F_GET_SEALS) >= 0) return true;
  const auto option = [fd](int name) {
    int value = -1;
    socklen_t size = sizeof value;
    return raw::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
  };
  const int domain = option(SO_DOMAIN);
  return domain == AF_UNIX || ((domain == AF_INET || domain == AF_INET6) && option(SO_TYPE) == SOCK_DGRAM);
}

}  // namespace rrdma::control
