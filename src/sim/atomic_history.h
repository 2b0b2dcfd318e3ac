// AtomicHistory: all remote atomics on one 64-bit word, and a proof that they can be ordered. In that order
// every call saw the value that its predecessor left, exactly once. No call precedes one that had ended
// before it began. Calls with an unknown outcome (their QP failed) may or may not be part of the order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/instant.h"

namespace rrdma::sim {

struct AtomicCall {
  bool swap = false;  // compare-and-swap, otherwise fetch-and-add
  std::uint64_t compare_add = 0;
  std::uint64_t swap_value = 0;
  Instant posted;
  Instant completed = kNever;
  std::uint64_t original = 0;  // the value that it returned
  bool certain = false;        // completed with success

  [[nodiscard]] std::uint64_t after(std::uint64_t value) const {
    return swap ? (value == compare_add ? swap_value : value) : value + compare_add;
  }
};

class AtomicHistory {
 public:
  // A word with more calls of unknown outcome than this is not used any further.
  static constexpr std::size_t kUncertainMax = 6;

  explicit AtomicHistory(std::uint64_t initial) : initial_(initial) {}

  void add(const AtomicCall& call) { (call.certain ? certain_ : uncertain_).push_back(call); }
  [[nodiscard]] bool usable() const { return uncertain_.size() < kUncertainMax; }
  [[nodiscard]] std::size_t size() const { return certain_.size(); }
  // Empty if such an order exists and ends with `value`; otherwise the error.
  [[nodiscard]] std::string check(std::uint64_t value);

 private:
  bool extend(std::uint64_t value, std::size_t placed, std::uint64_t end, std::uint32_t used);

  std::uint64_t initial_;
  std::vector<AtomicCall> certain_;
  std::vector<AtomicCall> uncertain_;
  std::vector<std::uint32_t> order_;
};

}  // namespace rrdma::sim
