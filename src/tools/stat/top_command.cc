// `rrdma top`: a live full-screen table of processes and queue pairs. top_report.cc formats it and
// full_screen.h controls the terminal; this file handles options, keys and timing.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>

#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/interrupt.h"
#include "tools/stat/full_screen.h"
#include "tools/stat/top_report.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

constexpr const char* kName = "rrdma top";

struct TopOptions {
  double interval_s = 1;
  std::string order = "bytes";
  std::string filter;
};

constexpr char kEscape = '\x1b';
constexpr std::size_t kFilterMax = 40;

class Top {
 public:
  explicit Top(const TopOptions& options)
      : interval_(
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.interval_s))),
        palette_(palette_for(STDOUT_FILENO, ColourChoice::kAuto)) {
    view_.order = order_of(options.order).value_or(Order::kOctets);
    view_.filter = options.filter;
  }

  // Runs until q, a signal, or the end of the terminal. Returns an error sentence, or an empty string.
  std::string run() {
    FullScreen screen;
    while (!interrupted() && !ended_ && !screen.gone()) {
      if (Clock::now() >= next_look_ && !view_.paused) {
        if (std::string sentence = look(); !sentence.empty()) return sentence;
        next_look_ = Clock::now() + interval_;
      }
      if (!screen.show(top_screen(now_, before_ ? &*before_ : nullptr, view_, FullScreen::size(), palette_)))
        break;
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(view_.paused ? interval_ : next_look_ - Clock::now())
              .count();
      if (const auto key = screen.key(static_cast<int>(std::max<std::int64_t>(left, 0)))) handle_key(*key);
    }
    return {};
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::string look() {
    auto seen = observe();
    if (!seen) return seen.error().sentence;
    if (seen_once_) before_ = std::move(now_);
    now_ = std::move(*seen);
    seen_once_ = true;
    return {};
  }

  void edit_filter(char key) {
    constexpr char kDelete = '\x7f', kBackspace = '\b';
    if (key == '\n' || key == '\r') {
      view_.editing = false;
    } else if (key == kEscape) {
      view_.editing = false;
      view_.filter.clear();
    } else if (key == kDelete || key == kBackspace) {
      if (!view_.filter.empty()) view_.filter.pop_back();
    } else if (key >= ' ' && key < kDelete && view_.filter.size() < kFilterMax) {
      view_.filter += key;
    }
  }

  void handle_key(char key) {
    if (view_.help) {
      view_.help = false;
      return;
    }
    if (view_.editing) return edit_filter(key);
    switch (key) {
      case 'q':
      case 'Q': ended_ = true; return;
      case 's':
        view_.order = static_cast<Order>((static_cast<std::size_t>(view_.order) + 1) % kOrderCount);
        return;
      case 'r': view_.reversed = !view_.reversed; return;
      case '?':
      case 'h': view_.help = true; return;
      case '/':
        view_.editing = true;
        view_.filter.clear();
        return;
      case kEscape: view_.filter.clear(); return;
      case ' ': view_.paused = !view_.paused; return;
      default: return;
    }
  }

  const Clock::duration interval_;
  const wire::Palette palette_;
  TopView view_;
  Observation now_;
  std::optional<Observation> before_;
  Clock::time_point next_look_ = Clock::now();
  bool seen_once_ = false;
  bool ended_ = false;
};

int run_top(const TopOptions& options) {
  if (!is_terminal(STDIN_FILENO) || !is_terminal(STDOUT_FILENO)) {
    return complain(kName, "needs a terminal for its screen and its keys",
                    "`rrdma stat --watch` prints the same numbers line by line");
  }
  watch_interrupts();
  const std::string sentence = Top(options).run();
  return sentence.empty() ? kExitSuccess : complain(kName, sentence, "");
}

}  // namespace

void add_top_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* top = app.add_subcommand("top", "Monitor processes and queue pairs on a full screen");
  top->add_option("-i,--interval", options->interval_s, "Seconds between updates (default 1)")
      ->option_text("SECONDS")
      ->check(CLI::Range(0.1, 3600.0));
  top->add_option("-s,--sort", options->order, "Sort key (default: bytes)")
      ->option_text("bytes|messages|resent|rnr|pid")
      ->check(CLI::IsMember({"bytes", "messages", "resent", "rnr", "pid"}));
  top->add_option("-f,--filter", options->filter,
                  "Show only rows that contain this text: program, PID, QPN, peer, state")
      ->option_text("TEXT");
  top->footer(
      "Keys: q quits, ? shows help, s sorts by the next column, r reverses the order, / sets a filter,\n"
      "space pauses and continues.\n"
      "Rates are per second; RESENT, RNR and ERR are totals.\n"
      "Exit status: 0, or 2 on failure.");
  top->callback([&chosen, options] { chosen = [options] { return run_top(*options); }; });
}

}  // namespace rrdma::tools
