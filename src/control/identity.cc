#include "control/identity.h"

#include <signal.h>

#include <cstdlib>
#include <cstring>

#include "base/owned_fd.h"

namespace rrdma::control {
namespace {

constexpr uid_t kOverflowUid = 65534;

// /proc/self/uid_map of the first namespace: "0 0 4294967295", every number but -1.
bool namespace_maps_every_uid() {
  const OwnedFd map(raw::open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC));
  char text[128] = {};
  if (!map || raw::read(map.get(), text, sizeof text - 1) <= 0) return false;
  char* rest = text;
  const unsigned long inside = std::strtoul(rest, &rest, 10);
  std::strtoul(rest, &rest, 10);
  const unsigned long count = std::strtoul(rest, &rest, 10);
  return inside == 0 && count >= 0xffffffffUL;
}

}  // namespace

PeerIdentity peer_identity(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (raw::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0) return {};
  return {.pid = credentials.pid, .uid = credentials.uid};
}

bool uid_is_unambiguous(uid_t uid) { return uid != kOverflowUid || namespace_maps_every_uid(); }

bool is_own_user(const PeerIdentity& peer) {
  if (peer.uid != ::geteuid()) return false;
  if (uid_is_unambiguous(peer.uid)) return true;
  return peer.pid > 0 && ::kill(peer.pid, 0) == 0;
}

bool is_one_user(const PeerIdentity& a, const PeerIdentity& b) {
  if (a.uid != b.uid) return false;
  return uid_is_unambiguous(a.uid) || (is_own_user(a) && is_own_user(b));
}

}  // namespace rrdma::control
