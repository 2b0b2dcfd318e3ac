// The screen of `rrdma top` as text: header, table of processes, table of queue pairs, and a line of keys; or
// the help. A pure function of two observations and the user's view.
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
  std::string filter;    // show only rows that contain it
  bool editing = false;  // the user is typing the filter
};

struct ScreenSize {
  std::size_t columns = 80;
  std::size_t lines = 24;
};

// Fits `size` if there are at least nine lines; leaves out rows and columns that do not fit. `before`: null
// the first time, when there are no rates yet.
[[nodiscard]] std::string top_screen(const Observation& now, const Observation* before, const TopView& view,
                                     ScreenSize size, const wire::Palette& palette);

}  // namespace rrdma::tools
