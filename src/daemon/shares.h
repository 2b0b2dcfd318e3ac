// Shares: how much of something that all users need one user may have. A user may take one more while it
// has less than half of what the others leave: whoever comes next always finds room, and a host with one
// user gives it half. The daemon's own user is not bounded but by the whole: it could end the daemon.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <unordered_map>

#include "base/assert.h"

namespace rrdma::daemon {

class Shares {
 public:
  Shares(std::size_t whole, uid_t unbounded) : whole_(whole), unbounded_(unbounded) {}

  // Counts so many for the user; false: that would be more than its share.
  [[nodiscard]] bool take(uid_t uid, std::size_t amount = 1) {
    const std::size_t own = of(uid);
    const std::size_t left_by_others = whole_ - (total_ - own);
    const std::size_t share = uid == unbounded_ ? left_by_others : left_by_others / 2;
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
