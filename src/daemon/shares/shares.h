// Shares: divides a shared resource among users. A quarter of the whole is a reserve for newcomers: from it
// each user gets only its first few (a 256th of the whole, at least one). Of the rest, a user may take one
// more while it has less than half of what the others leave. So nine users that take all they can do not lock
// out the tenth. Only the whole bounds the daemon's own user, because it could end the daemon anyway.
//
// A user here is an account (control::account_of): many uids of one user namespace count as one.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "base/assert.h"

namespace rrdma::daemon {

// Takes from the share of an account. A process that has changed its user since it connected can no longer
// end the daemon: it is bounded, even if its account is not.
struct Payer {
  Payer(uid_t uid, bool has_changed = false) : account(uid), is_bounded(has_changed) {}
  uid_t account;
  bool is_bounded;
};

class Shares {
 public:
  Shares(std::size_t whole, uid_t unbounded) : whole_(whole), unbounded_(unbounded) {}

  // Counts `amount` for the user; false if that would exceed its share.
  [[nodiscard]] bool take(Payer payer, std::size_t amount = 1) {
    const uid_t uid = payer.account;
    const std::size_t own = of(uid);
    const std::size_t others = total_ - own;
    if (amount > whole_ - total_) return false;
    const std::size_t open_to_all = whole_ - whole_ / 4;
    const std::size_t left_by_others = open_to_all > others ? open_to_all - others : 0;
    const std::size_t newcomers = std::max<std::size_t>(whole_ / 256, 1);
    const bool is_bounded = uid != unbounded_ || payer.is_bounded;
    const std::size_t share = is_bounded ? std::max(left_by_others / 2, newcomers) : whole_ - others;
    if (amount > share || own > share - amount) return false;
    held_[uid] += amount;
    total_ += amount;
    return true;
  }
  // REQUIRES: take() counted them.
  void give_back(uid_t uid, std::size_t amount = 1) {
    const auto found = held_.find(uid);
    RRDMA_ASSERT(found != held_.end() && found->second >= amount);
    total_ -= amount;
    found->second -= amount;
    if (found->second == 0) held_.erase(found);
  }
  [[nodiscard]] std::size_t total() const { return total_; }
  [[nodiscard]] std::size_t of(uid_t uid) const {
    const auto found = held_.find(uid);
    return found == held_.end() ? 0 : found->second;
  }

 private:
  const std::size_t whole_;
  const uid_t unbounded_;
  std::size_t total_ = 0;
  std::unordered_map<uid_t, std::size_t> held_;
};

}  // namespace rrdma::daemon
