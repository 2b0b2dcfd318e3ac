#include "daemon/client.h"

#include <cerrno>

namespace rrdma::daemon {
namespace {

// More messages than the receive queue of a unix socket can hold.
constexpr std::size_t kUnreadMax = 4096;

}  // namespace

Client::Client(OwnedFd socket, const control::PeerIdentity& peer, OutboxShares& outboxes, Disposal& disposal,
               std::vector<int>& changed, Instant now)
    : socket_(std::move(socket)),
      outboxes_(outboxes),
      disposal_(disposal),
      changed_(changed),
      identity(peer),
      account(control::account_of(peer)),
      acting(peer),
      connected_at(now) {
  (void)raw::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, int{kSendBuffer});
  (void)raw::setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, 1);
}

// Unread messages may carry descriptors, which the kernel closes with the socket. Take them out first: this
// runs on the thread of Disposal, where a close may take long.
Client::~Client() {
  if (!socket_) return;
  (void)::shutdown(socket_.get(), SHUT_RDWR);
  for (std::size_t i = 0; i < kUnreadMax; ++i) {
    control::Received unread;
    const auto outcome = control::receive_message(socket_.get(), unread);
    for (const OwnedFd& fd : unread.fds) forbid_linger(fd.get());
    if (outcome == control::ReceiveOutcome::kNothing || outcome == control::ReceiveOutcome::kGone) return;
  }
}

void Client::settle_accounts() {
  for (Outgoing& outgoing : outbox_) {
    discount(outgoing.datagram.size(), outgoing.fds.size());
    outgoing.datagram.clear();
  }
}

std::size_t Client::waiting_descriptors() const {
  std::size_t count = 0;
  for (const Outgoing& outgoing : outbox_) count += outgoing.fds.size();
  return count;
}

bool Client::count(std::size_t octets, std::size_t descriptors) {
  if (!outboxes_.octets.take(payer(), octets)) return false;
  if (descriptors == 0 || outboxes_.descriptors.take(payer(), descriptors)) return true;
  outboxes_.octets.give_back(account, octets);
  return false;
}

void Client::discount(std::size_t octets, std::size_t descriptors) {
  outboxes_.octets.give_back(account, octets);
  if (descriptors != 0) outboxes_.descriptors.give_back(account, descriptors);
}

control::SendOutcome Client::pass_on(const std::vector<std::uint8_t>& datagram, std::span<const int> fds) {
  if (!fds.empty() && !outboxes_.unread.take(payer(), fd(), fds.size())) {
    errno = EDQUOT;
    return control::SendOutcome::kRefused;
  }
  const auto outcome = control::send_datagram(socket_.get(), datagram, fds);
  if (outcome != control::SendOutcome::kSent && !fds.empty())
    outboxes_.unread.give_back(account, fd(), fds.size());
  return outcome;
}

bool Client::send(std::vector<std::uint8_t> datagram, std::span<const int> fds, std::size_t outbox_max) {
  if (doomed_) return false;
  if (outbox_.empty()) {
    switch (pass_on(datagram, fds)) {
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
  if (!count(datagram.size(), fds.size())) {
    errno = EDQUOT;
    return false;
  }
  Outgoing waiting{std::move(datagram), {}};
  for (const int fd : fds) {
    waiting.fds.emplace_back(raw::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (waiting.fds.back()) continue;
    const int error = errno;
    discount(waiting.datagram.size(), fds.size());
    disposal_.take(account, std::move(waiting.fds));
    errno = error;
    return false;
  }
  outbox_.push_back(std::move(waiting));
  if (outbox_.size() == 1) note_change();
  return true;
}

void Client::flush() {
  while (!outbox_.empty()) {
    std::vector<int> fds;
    for (const OwnedFd& fd : outbox_.front().fds) fds.push_back(fd.get());
    const auto outcome = pass_on(outbox_.front().datagram, fds);
    if (outcome == control::SendOutcome::kWouldBlock) return;
    // The program would wait for a refused answer for ever.
    if (outcome != control::SendOutcome::kSent) return doom();
    discount(outbox_.front().datagram.size(), outbox_.front().fds.size());
    disposal_.take(account, std::move(outbox_.front().fds));
    outbox_.pop_front();
  }
  note_change();
}

}  // namespace rrdma::daemon
