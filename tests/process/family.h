// Family: processes that one test program forks before any of them opens a device, and the shared page by
// which they find each other: a barrier, and a place for each pair to put its Hello.
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

  // Each member runs `life` in a process of its own, and is good when that returns.
  void start(const std::function<void(unsigned member)>& life);
  // The pids, by member. In the parent, after start().
  [[nodiscard]] const std::vector<pid_t>& pids() const { return pids_; }
  // Waits for all; how many were not good. Ends the others after `seconds`. Members in `expendable` may end as they like.
  [[nodiscard]] unsigned wait(double seconds, const std::vector<unsigned>& expendable = {});

  // Of the members, in their processes:
  [[nodiscard]] Hello& hello(unsigned from, unsigned to);
  // Returns when `count` members (all, if 0) have come here as often as this one.
  void meet(unsigned count = 0);
  // A flag that one member raises for the others.
  [[nodiscard]] std::atomic<std::uint32_t>& flag(unsigned which);

 private:
  static constexpr unsigned kFlags = 8;
  struct Shared {
    std::atomic<std::uint64_t> arrivals;
    std::atomic<std::uint32_t> flags[kFlags];
  };
  unsigned members_;
  Shared* shared_;
  Hello* hellos_;
  std::uint64_t met_ = 0;
  std::vector<pid_t> pids_;
};

}  // namespace proof
