#include "control/message_socket.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "control/passed_descriptors.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

namespace rrdma::control {
namespace {

constexpr int kGreetingTries = 500;
constexpr timespec kGreetingPause = {.tv_sec = 0, .tv_nsec = 2'000'000};

// A process may pass descriptors only while its user has no more of them in flight than the process may open.
// Parked slots are in flight. Raise the limit to its maximum for one more attempt.
class RaisedLimit {
 public:
  RaisedLimit() {
    if (::getrlimit(RLIMIT_NOFILE, &before_) != 0 || before_.rlim_cur >= before_.rlim_max) return;
    const rlimit most{.rlim_cur = before_.rlim_max, .rlim_max = before_.rlim_max};
    raised_ = ::setrlimit(RLIMIT_NOFILE, &most) == 0;
  }
  ~RaisedLimit() {
    if (raised_) (void)::setrlimit(RLIMIT_NOFILE, &before_);
  }
  RaisedLimit(const RaisedLimit&) = delete;
  RaisedLimit& operator=(const RaisedLimit&) = delete;

 private:
  rlimit before_{};
  bool raised_ = false;
};

ssize_t send_with_patience(int socket, const msghdr& message) {
  const ssize_t sent = raw::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0 || errno != ETOOMANYREFS) return sent;
  const RaisedLimit raised;
  return raw::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

SendOutcome send_datagram(int socket, Octets datagram, std::span<const int> fds) {
  RRDMA_ASSERT(fds.size() <= kFdsMax);
  iovec content{const_cast<std::uint8_t*>(datagram.data()), datagram.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  for (;;) {
    if (send_with_patience(socket, message) >= 0) return SendOutcome::kSent;
    switch (errno) {
      case EINTR: continue;
      case EAGAIN:
      case ENOBUFS: return SendOutcome::kWouldBlock;
      case EPIPE:
      case ECONNRESET:
      case ENOTCONN: return SendOutcome::kGone;
      default: return SendOutcome::kRefused;
    }
  }
}

SendOutcome send_greeting(int socket, Octets datagram, std::span<const int> fds) {
  for (int tries = 1;; ++tries) {
    const auto outcome = send_datagram(socket, datagram, fds);
    if (outcome != SendOutcome::kRefused || errno != EPERM || tries == kGreetingTries) return outcome;
    (void)raw::ppoll(nullptr, 0, &kGreetingPause);
  }
}

void let_take_descriptors(int socket, bool allowed) {
  (void)raw::setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, int{allowed});
}

bool takes_descriptors(int socket) {
  int value = 1;
  socklen_t size = sizeof value;
  return raw::getsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &value, &size) < 0 || value != 0;
}

namespace {

// The most that the kernel passes in one message (SCM_MAX_FD). The kernel closes descriptors that find no
// room on this thread, and such a close can take as long as their owner wants.
constexpr std::size_t kFdsOfAnyMessage = 253;

std::optional<uid_t> sender_of(msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) continue;
    ucred credentials{};
    std::memcpy(&credentials, CMSG_DATA(c), sizeof credentials);
    return credentials.uid;
  }
  return std::nullopt;
}

// Takes ownership of the descriptors of a received message, even if the message is refused.
std::vector<OwnedFd> take_fds(msghdr& message) {
  std::vector<OwnedFd> fds;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      // Lifting closes the number that the kernel chose.
      fds.push_back(closes_at_once(fd) ? lifted(fd) : OwnedFd(fd));
    }
  }
  return fds;
}

}  // namespace

ReceiveOutcome receive_message(int socket, Received& received) {
  std::uint8_t datagram[kMessageMax];
  iovec content{datagram, sizeof datagram};
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsOfAnyMessage * sizeof(int)) + CMSG_SPACE(sizeof(ucred))];
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t size;
  do {
    size = raw::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return errno == EAGAIN ? ReceiveOutcome::kNothing : ReceiveOutcome::kGone;

  received.fds = take_fds(message);
  received.sender = sender_of(message);
  if (size == 0 && received.fds.empty()) return ReceiveOutcome::kGone;
  // MSG_CTRUNC: descriptors were lost, because there were too many or this process has no room for them. A
  // message without its descriptors is malformed.
  const auto header = parse_header({datagram, static_cast<std::size_t>(size)});
  const bool too_many = received.fds.size() > kFdsMax;
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || too_many || !header)
    return ReceiveOutcome::kMalformed;
  received.header = *header;
  received.body.assign(datagram + sizeof(Header), datagram + size);
  return ReceiveOutcome::kMessage;
}

}  // namespace rrdma::control
