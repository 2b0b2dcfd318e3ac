// Family: processes that one test program forks before any of them opens a device. They find each other
// through a shared page with a barrier and a place for the Hello of each pair.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "conversation.h"

namespace proof {

class Family {
 public:
  explicit Family(unsigned members);
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  // Runs `life` for each member in a process of its own. A member succeeds when `life` returns.
  void start(const std::function<void(unsigned member)>& life);
  // The pids by member. REQUIRES: in the parent, after start().
  [[nodiscard]] const std::vector<pid_t>& pids() const { return pids_; }
  // Waits for all members; returns how many failed. Kills the rest after `seconds`, or soon after one failed.
  // `may_fail` is asked about each member that ended badly.
  [[nodiscard]] unsigned wait(double seconds, const std::function<bool(unsigned member)>& may_fail = {});

  // For members, in their own processes:
  [[nodiscard]] Hello& hello(unsigned from, unsigned to);
  // Returns when `count` members (all, if 0) have called this as often as this one.
  void meet(unsigned count = 0);
  // A flag that one member raises for the others.
  [[nodiscard]] std::atomic<std::uint32_t>& flag(unsigned which);

 private:
  static constexpr unsigned kFlags = 8;
  struct Shared {
    std::atomic<std::uint32_t> arrivals;
    std::atomic<std::uint32_t> flags[kFlags];
  };
  unsigned members_;
  Shared* shared_;
  Hello* hellos_;
  std::uint32_t met_ = 0;
  std::vector<pid_t> pids_;
};

}  // namespace proof
