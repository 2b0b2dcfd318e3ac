// The screen of `rrdma top` as text: header, table of processes, table of queue pairs, and a line of keys; or
// the help. A pure function of two observations and the user's view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/stat/columns.h"
#include "tools/stat/sparkline.h"

namespace rrdma::tools {

struct TopView {
  Order order = Order::kOctets;
  bool reversed = false;
  bool paused = false;
  bool help = false;
  std::string filter;    // show only rows that contain it
  bool editing = false;  // the user is typing the filter
  // The cursor is on a queue pair; it stays there when the order changes.
  RateHistory::Key chosen{0, 0};
  enum class Page : std::uint8_t { kTables, kQueuePair, kExplain } page = Page::kTables;
  std::size_t scrolled = 0;  // lines of a page
  bool asking = false;       // the user is typing a fault
  std::string fault;
  std::string said;  // the result of the last action
};

// The queue pairs in the order of the screen.
[[nodiscard]] std::vector<RateHistory::Key> shown_queue_pairs(const Observation& now,
                                                              const Observation* before, const TopView& view);

struct ScreenSize {
  std::size_t columns = 80;
  std::size_t lines = 24;
};

// Fits `size` if there are at least nine lines; leaves out rows and columns that do not fit. `before`: null
// the first time, when there are no rates yet.
[[nodiscard]] std::string top_screen(const Observation& now, const Observation* before, const TopView& view,
                                     const RateHistory& history, ScreenSize size,
                                     const wire::Palette& palette);
// One queue pair, or the sentences of `rrdma explain` about its program (top_pages.cc).
[[nodiscard]] std::string queue_pair_page(const Observation& now, const TopView& view,
                                          const RateHistory& history, ScreenSize size,
                                          const wire::Palette& palette);
[[nodiscard]] std::string explain_page(const TopView& view, ScreenSize size);

}  // namespace rrdma::tools
