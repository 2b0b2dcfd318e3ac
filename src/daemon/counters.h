// Counters of the daemon by name, as `rrdma stat` shows them. One thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "control/messages.h"

namespace rrdma::daemon {

class Counters {
 public:
  void add(const char* name, std::uint64_t amount = 1) {
    if (const auto found = values_.find(name); found != values_.end()) {
      found->second += amount;
    } else if (values_.size() + followed_.size() < control::kCountersMax) {
      values_.emplace(name, amount);
    }
  }
  // Lists a counter of another thread. REQUIRES: `value` outlives this.
  void follow(const char* name, const std::atomic<std::uint64_t>& value) {
    followed_.emplace_back(name, &value);
  }
  [[nodiscard]] std::vector<control::NamedCounter> list() const {
    std::vector<control::NamedCounter> counters;
    for (const auto& [name, value] : followed_) counters.push_back({name, value->load()});
    for (const auto& [name, value] : values_) counters.push_back({name, value});
    return counters;
  }

 private:
  std::map<std::string, std::uint64_t, std::less<>> values_;
  std::vector<std::pair<std::string, const std::atomic<std::uint64_t>*>> followed_;
};

}  // namespace rrdma::daemon
