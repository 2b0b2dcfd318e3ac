// Histories of rates, and their pictures in one line of text.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "tools/stat/observation.h"

namespace rrdma::tools {

// "▁▂▅█": one character for each value, scaled to the largest. Shows the last `width` values.
[[nodiscard]] std::string sparkline(const std::deque<double>& values, std::size_t width);

// The rates of each queue pair, one value for each observation.
class RateHistory {
 public:
  static constexpr std::size_t kValuesMax = 120;
  struct Rates {
    std::deque<double> sent_octets, received_octets, resent;  // in a second
  };
  // Identifies a queue pair.
  using Key = std::pair<std::uint32_t, std::uint32_t>;  // pid, QPN

  void add(const Observation& now, const Observation& before);
  // Null: not seen twice yet.
  [[nodiscard]] const Rates* of(const Key& key) const;

 private:
  std::map<Key, Rates> rates_;
};

}  // namespace rrdma::tools
