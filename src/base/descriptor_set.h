// DescriptorSet: a set of file descriptor numbers. A lookup is one load, so that every close() and write() of
// a program can afford it. Safe in any thread and in signal handlers.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace rrdma {

class DescriptorSet {
 public:
  // Larger numbers are never in the set.
  static constexpr int kNumbers = 65536;

  [[nodiscard]] bool contains(int fd) const {
    return known(fd) && (word(fd).load(std::memory_order_relaxed) & bit(fd)) != 0;
  }
  void add(int fd) {
    if (known(fd)) word(fd).fetch_or(bit(fd));
  }
  void remove(int fd) {
    if (known(fd)) word(fd).fetch_and(~bit(fd));
  }
  void clear() {
    for (auto& word : words_) word.store(0, std::memory_order_relaxed);
  }
  // The lowest member >= `first`, or kNumbers.
  [[nodiscard]] int next(int first) const {
    for (int fd = first < 0 ? 0 : first; fd < kNumbers; fd = (fd / 64 + 1) * 64) {
      const std::uint64_t rest = word(fd).load(std::memory_order_relaxed) & (~std::uint64_t{0} << (fd % 64));
      if (rest != 0) return fd / 64 * 64 + std::countr_zero(rest);
    }
    return kNumbers;
  }

 private:
  static bool known(int fd) { return fd >= 0 && fd < kNumbers; }
  static std::uint64_t bit(int fd) { return std::uint64_t{1} << (fd % 64); }
  std::atomic<std::uint64_t>& word(int fd) { return words_[static_cast<std::size_t>(fd) / 64]; }
  const std::atomic<std::uint64_t>& word(int fd) const { return words_[static_cast<std::size_t>(fd) / 64]; }

  std::array<std::atomic<std::uint64_t>, kNumbers / 64> words_{};
};

}  // namespace rrdma
