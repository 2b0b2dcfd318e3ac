// Unread: the messages that the kernel holds for programs. It counts their descriptors for the user of the
// daemon, and refuses more than RLIMIT_NOFILE. So each user has a share of them, until its programs have read
// them.
//
// They stay with a program when the daemon has closed the connection. Such a connection counts until the
// program reads everything or closes its socket.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <map>

#include "base/instant.h"
#include "base/owned_fd.h"
#include "daemon/disposal.h"
#include "daemon/shares/shares.h"

namespace rrdma::daemon {

class Unread {
 public:
  // `most`: descriptors of all users. REQUIRES: `disposal` outlives this.
  Unread(std::size_t most, uid_t unbounded, Disposal& disposal)
      : descriptors_(most, unbounded), disposal_(disposal) {}

  // Counts descriptors that are about to be sent; false if they exceed the user's share.
  [[nodiscard]] bool take(Payer payer, int socket, std::size_t count);
  // They were not sent. REQUIRES: take() counted them.
  void give_back(uid_t account, int socket, std::size_t count);
  // Call before the connection is closed: gives it back to `connections`, now or later. REQUIRES:
  // `connections` counts it, and outlives this.
  void end(uid_t account, int socket, Shares& connections, Instant now);

  [[nodiscard]] Instant next_deadline() const { return ended_.empty() ? kNever : looks_again_at_; }
  void handle_deadline(Instant now);
  // Gives back the ended connections that were read, as far as it looks in one turn.
  void collect();

 private:
  struct User {
    std::map<int, std::size_t> sent;  // descriptors that may be unread, by socket
    int next = 0;                     // the socket to look at next
  };
  struct Ended {
    uid_t account;
    OwnedFd socket;
    Shares* connections;
  };
  void look(uid_t account);
  void forget(uid_t account, int socket);

  Shares descriptors_;
  Disposal& disposal_;
  std::map<uid_t, User> users_;
  std::deque<Ended> ended_;
  Instant looks_again_at_ = kNever;
};

}  // namespace rrdma::daemon
