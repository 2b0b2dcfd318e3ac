#include "control/names.h"

#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "base/assert.h"

namespace rrdma::control {
namespace {

// Programs that open a device at the same moment queue here; beyond it connect() answers EAGAIN.
constexpr int kBacklog = 512;

struct AbstractAddress {
  sockaddr_un address{};
  socklen_t size = 0;

  explicit AbstractAddress(std::string_view name) {
    RRDMA_ASSERT(name.size() < sizeof address.sun_path);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());  // sun_path[0] is 0: abstract
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  [[nodiscard]] const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address); }
};

OwnedFd control_socket() {
  return lifted(raw::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

std::string user_name(uid_t uid) { return "rrdma.user." + std::to_string(uid); }
std::string start_name(uid_t uid) { return "rrdma.start." + std::to_string(uid); }

OwnedFd connect_to(std::string_view name) {
  const AbstractAddress address(name);
  OwnedFd socket = control_socket();
  if (!socket) return socket;
  int status;
  do {
    status = raw::connect(socket.get(), address.generic(), address.size);
  } while (status < 0 && errno == EINTR);
  if (status < 0) socket.reset();
  return socket;
}

OwnedFd listen_on(std::string_view name) {
  const AbstractAddress address(name);
  OwnedFd socket = control_socket();
  if (!socket) return socket;
  if (raw::bind(socket.get(), address.generic(), address.size) < 0 ||
      raw::listen(socket.get(), kBacklog) < 0) {
    socket.reset();
  }
  return socket;
}

}  // namespace rrdma::control
