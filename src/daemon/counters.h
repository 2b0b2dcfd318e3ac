// Counters of the daemon by name, as `rrdma stat` shows them. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "control/messages.h"

namespace rrdma::daemon {

class Counters {
 public:
  void add(const char* name, std::uint64_t amount = 1) {
    if (const auto found = values_.find(name); found != values_.end()) {
      found->second += amount;
    } else if (values_.size() < control::kCountersMax) {
      values_.emplace(name, amount);
    }
  }
  [[nodiscard]] std::vector<control::NamedCounter> list() const {
    std::vector<control::NamedCounter> counters;
    for (const auto& [name, value] : values_) counters.push_back({name, value});
    return counters;
  }

 private:
  std::map<std::string, std::uint64_t, std::less<>> values_;
};

}  // namespace rrdma::daemon
