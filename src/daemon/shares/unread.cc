#include "daemon/shares/unread.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace rrdma::daemon {
namespace {

// A look is one system call.
constexpr std::size_t kLooksForOneMessage = 64;
constexpr std::size_t kLooksInOneTurn = 512;
constexpr Duration kPause = milliseconds(250);

bool has_unread(int socket) {
  int octets = 0;
  return ::ioctl(socket, SIOCOUTQ, &octets) == 0 && octets > 0;
}

}  // namespace

bool Unread::take(Payer payer, int socket, std::size_t count) {
  if (!descriptors_.take(payer, count)) {
    look(payer.account);
    if (!descriptors_.take(payer, count)) return false;
  }
  users_[payer.account].sent[socket] += count;
  return true;
}

void Unread::give_back(uid_t account, int socket, std::size_t count) {
  std::size_t& sent = users_.at(account).sent.at(socket);
  sent -= count;
  descriptors_.give_back(account, count);
  if (sent == 0) forget(account, socket);
}

// Programs do not say that they have read a message.
void Unread::look(uid_t account) {
  const auto user = users_.find(account);
  if (user == users_.end()) return;
  std::vector<int> read;
  auto at = user->second.sent.lower_bound(user->second.next);
  for (std::size_t i = std::min(kLooksForOneMessage, user->second.sent.size()); i > 0; --i) {
    if (at == user->second.sent.end()) at = user->second.sent.begin();
    if (!has_unread(at->first)) read.push_back(at->first);
    user->second.next = at++->first + 1;
  }
  for (const int socket : read) forget(account, socket);
}

void Unread::forget(uid_t account, int socket) {
  const auto user = users_.find(account);
  if (user == users_.end()) return;
  const auto sent = user->second.sent.find(socket);
  if (sent == user->second.sent.end()) return;
  if (sent->second != 0) descriptors_.give_back(account, sent->second);
  user->second.sent.erase(sent);
  if (user->second.sent.empty()) users_.erase(user);
}

void Unread::end(uid_t account, int socket, Shares& connections, Instant now) {
  OwnedFd kept;
  if (has_unread(socket)) kept = OwnedFd(raw::fcntl(socket, F_DUPFD_CLOEXEC, 3));
  if (!kept) {
    forget(account, socket);
    connections.give_back(account);
    return;
  }
  if (const auto user = users_.find(account); user != users_.end()) {
    if (auto sent = user->second.sent.extract(socket)) {
      sent.key() = kept.get();
      user->second.sent.insert(std::move(sent));
    }
  }
  if (ended_.empty()) looks_again_at_ = now + kPause;
  ended_.push_back({account, std::move(kept), &connections});
}

void Unread::handle_deadline(Instant now) {
  if (now < next_deadline()) return;
  looks_again_at_ = now + kPause;
  collect();
}

void Unread::collect() {
  for (std::size_t i = std::min(kLooksInOneTurn, ended_.size()); i > 0; --i) {
    Ended one = std::move(ended_.front());
    ended_.pop_front();
    if (has_unread(one.socket.get())) {
      ended_.push_back(std::move(one));
      continue;
    }
    forget(one.account, one.socket.get());
    one.connections->give_back(one.account);
    std::vector<OwnedFd> sockets;
    sockets.push_back(std::move(one.socket));
    disposal_.take(one.account, std::move(sockets));
  }
}

}  // namespace rrdma::daemon
