// The cases of the good guest suite. Each runs in a process of its own: `guest NAME` runs one, and exits with
// 0 if RRDMA had no effect on the program except that it delivers messages.
#pragma once

#include <span>

namespace guest {

struct Case {
  const char* name;
  void (*run)();
};

std::span<const Case> child_cases();
std::span<const Case> clock_cases();
std::span<const Case> descriptor_cases();
std::span<const Case> signal_cases();
std::span<const Case> thread_cases();
std::span<const Case> limit_cases();
std::span<const Case> ending_cases();
std::span<const Case> network_cases();
std::span<const Case> queue_pair_cases();

}  // namespace guest
