#include "sim/atomic_history.h"

#include <algorithm>

namespace rrdma::sim {

// Places every call that saw `value`, then continues from the value that it left. Values do not recur,
// because operands are random 64-bit numbers.
bool AtomicHistory::extend(std::uint64_t value, std::size_t placed, std::uint64_t end, std::uint32_t used) {
  const auto begin =
      std::lower_bound(certain_.begin(), certain_.end(), value,
                       [](const AtomicCall& call, std::uint64_t v) { return call.original < v; });
  const AtomicCall* changing = nullptr;
  std::size_t here = 0;
  for (auto call = begin; call != certain_.end() && call->original == value; ++call, ++here) {
    if (call->after(value) == value) {
      order_.push_back(static_cast<std::uint32_t>(call - certain_.begin()));
    } else if (changing != nullptr) {
      return false;  // two calls replaced the same value
    } else {
      changing = &*call;
    }
  }
  if (changing != nullptr) {
    order_.push_back(static_cast<std::uint32_t>(changing - certain_.data()));
    return extend(changing->after(value), placed + here, end, used);
  }
  placed += here;
  if (placed == certain_.size() && value == end) return true;
  for (std::size_t i = 0; i < uncertain_.size(); ++i) {
    const std::uint64_t next = uncertain_[i].after(value);
    if ((used >> i & 1) != 0 || next == value) continue;
    const std::size_t length = order_.size();
    if (extend(next, placed, end, used | 1u << i)) return true;
    order_.resize(length);
  }
  return false;
}

std::string AtomicHistory::check(std::uint64_t value) {
  if (uncertain_.size() > 31) return {};
  std::sort(certain_.begin(), certain_.end(), [](const AtomicCall& a, const AtomicCall& b) {
    return a.original != b.original ? a.original < b.original : a.posted < b.posted;
  });
  order_.clear();
  if (!extend(initial_, 0, value, 0)) {
    return "the results of " + std::to_string(certain_.size()) +
           " atomics on one word fit no order of execution";
  }
  Instant earliest_end = kNever;
  for (std::size_t i = order_.size(); i-- > 0;) {
    const AtomicCall& call = certain_[order_[i]];
    if (earliest_end < call.posted) return "an atomic took effect after one that began when it had ended";
    earliest_end = std::min(earliest_end, call.completed);
  }
  return {};
}

}  // namespace rrdma::sim
