// LastAnswer: the last acknowledgement of a QP in one word. It is stored where another process can find it.
// If a program exits at once, its peer must still receive the acknowledgement that it waits for.
//
//   word = valid(1) | time in ticks of 16.8 ms(15) | MSN(24) | PSN(24)
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/instant.h"
#include "wire/numbers.h"

namespace rrdma::wire {

struct LastAnswer {
  Psn psn;
  std::uint32_t msn = 0;
  std::uint16_t tick = 0;

  static constexpr int kTickShift = 24;
  static constexpr std::uint64_t kTickMask = 0x7fff;
  static constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;

  static void write(std::atomic<std::uint64_t>& word, Psn psn, std::uint32_t msn, Instant now) {
    const std::uint64_t tick = static_cast<std::uint64_t>(now.ns) >> kTickShift & kTickMask;
    word.store(kPresent | tick << 48 | std::uint64_t{msn & kMask24} << 24 | psn.value,
               std::memory_order_relaxed);
  }
  [[nodiscard]] static std::optional<LastAnswer> read(std::uint64_t word) {
    if ((word & kPresent) == 0) return std::nullopt;
    return LastAnswer{.psn = Psn(static_cast<std::uint32_t>(word & kMask24)),
                      .msn = static_cast<std::uint32_t>(word >> 24 & kMask24),
                      .tick = static_cast<std::uint16_t>(word >> 48 & kTickMask)};
  }
  // Accurate to one tick for ages below nine minutes.
  [[nodiscard]] Duration age(Instant now) const {
    const std::uint64_t ticks = ((static_cast<std::uint64_t>(now.ns) >> kTickShift) - tick) & kTickMask;
    return nanoseconds(static_cast<std::int64_t>(ticks << kTickShift));
  }
};

}  // namespace rrdma::wire
