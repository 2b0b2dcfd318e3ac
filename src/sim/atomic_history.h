// AtomicHistory: all that was done to one 64-bit word by remote atomics, and the proof that it can be put in
// one order: every call saw the value that the one before it left, exactly once, and no call comes after
// another one that began only when it had ended. Calls whose fate is unknown (their QP failed) may be
// part of that order or not.
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
  std::uint64_t original = 0;  // what it returned
  bool certain = false;        // it completed with success

  [[nodiscard]] std::uint64_t after(std::uint64_t value) const {
    return swap ? (value == compare_add ? swap_value : value) : value + compare_add;
  }
};

class AtomicHistory {
 public:
  // More calls of unknown fate than this make the word useless.
  static constexpr std::size_t kUncertainMax = 6;

  explicit AtomicHistory(std::uint64_t initial) : initial_(initial) {}

  void add(const AtomicCall& call) { (call.certain ? certain_ : uncertain_).push_back(call); }
  [[nodiscard]] bool usable() const { return uncertain_.size() < kUncertainMax; }
  [[nodiscard]] std::size_t size() const { return certain_.size(); }
  // Empty if there is such an order and it ends with `value`; otherwise what is wrong.
  [[nodiscard]] std::string check(std::uint64_t value);

 private:
  bool extend(std::uint64_t value, std::size_t placed, std::uint64_t end, std::uint32_t used);

  std::uint64_t initial_;
  std::vector<AtomicCall> certain_;
  std::vector<AtomicCall> uncertain_;
  std::vector<std::uint32_t> order_;
};

}  // namespace rrdma::sim
