// The screen of `rrdma top` as text: a head, a table of processes, a table of queue pairs, a line of keys; or
// the help. A pure function of two observations and the view that the user has chosen.
#pragma once

#include <cstddef>
#include <string>

#include "tools/stat/columns.h"

namespace rrdma::tools {

struct TopView {
  Order order = Order::kOctets;
  bool reversed = false;
  bool paused = false;
  bool help = false;
  std::string filter;    // only rows that show it
  bool editing = false;  // the user types the filter
};

struct ScreenSize {
  std::size_t columns = 80;
  std::size_t lines = 24;
};

// Fits `size`, where there are nine lines: what does not fit is left out, columns too. `before`: null the
// first time, when there are no rates yet.
[[nodiscard]] std::string top_screen(const Observation& now, const Observation* before, const TopView& view,
                                     ScreenSize size, const wire::Palette& palette);

}  // namespace rrdma::tools
