#include "daemon/client.h"

#include <cerrno>

namespace rrdma::daemon {
namespace {

// What the kernel keeps for a client that does not read; a few of the longest messages.
constexpr int kSendBuffer = 64 * 1024;

}  // namespace

Client::Client(OwnedFd socket, const control::PeerIdentity& peer, Shares& waiting, Instant now)
    : socket_(std::move(socket)), waiting_(waiting), identity(peer), connected_at(now) {
  (void)raw::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, kSendBuffer);
}

Client::~Client() {
  for (const Outgoing& outgoing : outbox_) waiting_.give_back(identity.uid, outgoing.datagram.size());
}

bool Client::send(std::vector<std::uint8_t> datagram, std::span<const int> fds, std::size_t outbox_max) {
  if (doomed_) return false;
  if (outbox_.empty()) {
    switch (control::send_datagram(socket_.get(), datagram, fds)) {
      case control::SendOutcome::kSent: return true;
      case control::SendOutcome::kGone: doom(); return false;
      case control::SendOutcome::kRefused: return false;
      case control::SendOutcome::kWouldBlock: break;
    }
  }
  if (outbox_.size() >= outbox_max) {
    errno = EAGAIN;
    return false;
  }
  Outgoing waiting{std::move(datagram), {}};
  for (const int fd : fds) {
    waiting.fds.emplace_back(raw::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (!waiting.fds.back()) return false;
  }
  if (!waiting_.take(identity.uid, waiting.datagram.size())) {
    errno = EDQUOT;
    return false;
  }
  outbox_.push_back(std::move(waiting));
  return true;
}

void Client::flush() {
  while (!outbox_.empty()) {
    std::vector<int> fds;
    for (const OwnedFd& fd : outbox_.front().fds) fds.push_back(fd.get());
    const auto outcome = control::send_datagram(socket_.get(), outbox_.front().datagram, fds);
    if (outcome == control::SendOutcome::kWouldBlock) return;
    if (outcome == control::SendOutcome::kGone) return doom();
    waiting_.give_back(identity.uid, outbox_.front().datagram.size());
    outbox_.pop_front();
  }
}

}  // namespace rrdma::daemon
