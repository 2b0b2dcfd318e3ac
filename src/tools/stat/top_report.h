// The screen of `rrdma top` as text: a head, a table of processes, a table of queue pairs, a line of keys.
// A pure function of two observations and the view that the user has chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/stat/observation.h"
#include "wire/printer.h"

namespace rrdma::tools {

// By what rows are ordered, largest first; by pid, smallest first.
enum class TopOrder : std::uint8_t { kOctets, kMessages, kResent, kRnr, kPid };
inline constexpr std::size_t kTopOrderCount = 5;

[[nodiscard]] std::string_view name_of(TopOrder order);
[[nodiscard]] std::optional<TopOrder> top_order(std::string_view name);

struct TopView {
  TopOrder order = TopOrder::kOctets;
  bool reversed = false;
  bool paused = false;
};

struct ScreenSize {
  std::size_t columns = 80;
  std::size_t lines = 24;
};

// Fits 80 columns and `size.lines` lines, where there are nine; narrower terminals cut lines. `before`: null the first time, when there are
// no rates yet.
[[nodiscard]] std::string top_screen(const Observation& now, const Observation* before, const TopView& view,
                                     ScreenSize size, const wire::Palette& palette);

}  // namespace rrdma::tools
