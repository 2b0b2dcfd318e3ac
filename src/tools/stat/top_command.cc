// `rrdma top`: a live full-screen table of processes and queue pairs. top_report.cc formats it and
// full_screen.h controls the terminal; this file handles options, keys and timing.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>

#include "base/format.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/interrupt.h"
#include "tools/own_command.h"
#include "tools/stat/full_screen.h"
#include "tools/stat/top_report.h"
#include "tools/terminal.h"
#include "wire/address_text.h"

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
constexpr std::size_t kFaultMax = 120;
constexpr std::ptrdiff_t kPage = 10, kScrollMax = 100'000;
constexpr int kCaptureSeconds = 5;

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
      hold_cursor();
      look_after_capture();
      if (!screen.show(
              top_screen(now_, before_ ? &*before_ : nullptr, view_, history_, FullScreen::size(), palette_)))
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
    if (before_) history_.add(now_, *before_);
    seen_once_ = true;
    return {};
  }

  [[nodiscard]] std::vector<RateHistory::Key> rows() const {
    return shown_queue_pairs(now_, before_ ? &*before_ : nullptr, view_);
  }
  // Keeps the cursor on a row that exists.
  void hold_cursor() {
    const auto keys = rows();
    if (view_.page != TopView::Page::kTables || keys.empty()) return;
    if (std::find(keys.begin(), keys.end(), view_.chosen) == keys.end()) view_.chosen = keys.front();
  }
  void move(std::ptrdiff_t by) {
    if (view_.page != TopView::Page::kTables) {
      const auto to = static_cast<std::ptrdiff_t>(view_.scrolled) + by;
      view_.scrolled = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(to, 0, kScrollMax));
      return;
    }
    const auto keys = rows();
    if (keys.empty()) return;
    const auto at = std::find(keys.begin(), keys.end(), view_.chosen) - keys.begin();
    view_.chosen = keys[static_cast<std::size_t>(
        std::clamp<std::ptrdiff_t>(at + by, 0, static_cast<std::ptrdiff_t>(keys.size()) - 1))];
  }
  void open(TopView::Page page) {
    if (view_.chosen.first == 0) return;
    view_.page = page;
    view_.scrolled = 0;
  }

  void capture() {
    if (view_.chosen.first == 0 || capture_ > 0) return;
    file_ = formatted("rrdma-{}.pcapng", view_.chosen.first);
    capture_ = start_own_command({"capture", "--pid", std::to_string(view_.chosen.first), "--seconds",
                                  std::to_string(kCaptureSeconds), file_});
    view_.said = capture_ < 0 ? "rrdma capture cannot be started"
                              : formatted("capturing process {} for {} seconds …", view_.chosen.first,
                                          kCaptureSeconds);
  }
  void look_after_capture() {
    int status = 0;
    if (capture_ <= 0 || ::waitpid(capture_, &status, WNOHANG) != capture_) return;
    capture_ = 0;
    const bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    view_.said =
        done ? formatted("captured: rrdma inspect {}", file_)
             : formatted("nothing was captured: rrdma capture --pid {} {}", view_.chosen.first, file_);
  }

  void ask_for_fault() {
    if (view_.chosen.first == 0) return;
    view_.asking = true;
    view_.fault = formatted("net=drop=5% pid={}", view_.chosen.first);
    for (const ObservedProcess& process : now_.processes) {
      for (const control::QpSnapshot& qp : process.queue_pairs) {
        const bool chosen = process.entry.pid == view_.chosen.first && qp.fields.qpn == view_.chosen.second;
        if (chosen && !qp.fields.peer_gid.is_zero())
          view_.fault += " peer=" + wire::to_text(qp.fields.peer_gid);
      }
    }
  }
  void edit_fault(char key) {
    constexpr char kDelete = '\x7f', kBackspace = '\b';
    if (key == '\n' || key == '\r') {
      view_.asking = false;
      set_fault();
    } else if (key == kEscape) {
      view_.asking = false;
    } else if (key == kDelete || key == kBackspace) {
      if (!view_.fault.empty()) view_.fault.pop_back();
    } else if (key >= ' ' && key < kDelete && view_.fault.size() < kFaultMax) {
      view_.fault += key;
    }
  }
  void set_fault() {
    std::vector<std::string> words = {"fault", "set"};
    std::istringstream stream(view_.fault);
    for (std::string word; stream >> word;) words.push_back(word);
    const OwnCommandResult result = run_own_command(words, std::chrono::seconds(3));
    view_.said = printable(result.text.substr(0, result.text.find('\n')));
    if (view_.said.empty()) view_.said = result.done ? "set: " + view_.fault : "the fault was not set";
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
    if (view_.asking) return edit_fault(key);
    view_.said.clear();
    switch (key) {
      case FullScreen::kKeyUp:
      case 'k': return move(-1);
      case FullScreen::kKeyDown:
      case 'j': return move(1);
      case FullScreen::kKeyPageUp: return move(-kPage);
      case FullScreen::kKeyPageDown: return move(kPage);
      case FullScreen::kKeyHome: return move(-kScrollMax);
      case FullScreen::kKeyEnd: return move(kScrollMax);
      case '\n':
      case '\r': return open(TopView::Page::kQueuePair);
      case 'e': return open(TopView::Page::kExplain);
      case 'c': return capture();
      case 'f': return ask_for_fault();
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
      case kEscape:
        if (view_.page != TopView::Page::kTables) {
          view_.page = TopView::Page::kTables;
        } else {
          view_.filter.clear();
        }
        return;
      case ' ': view_.paused = !view_.paused; return;
      default: return;
    }
  }

  const Clock::duration interval_;
  const wire::Palette palette_;
  TopView view_;
  RateHistory history_;
  pid_t capture_ = 0;  // the process that captures; 0: none
  std::string file_;   // that it writes
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
  CLI::App* top = add_command(app, "top", kLooking, "Monitor processes and queue pairs on a full screen",
                              "rrdma top\nrrdma top --sort resent");
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
      "space pauses and continues. The arrows choose a queue pair: Enter shows it, e explains its program,\n"
      "c captures its packets, f injects a fault.\n"
      "Rates are per second; RESENT, RNR and ERR are totals.\n"
      "Exit status: 0, or 2 on failure.");
  top->callback([&chosen, options] { chosen = [options] { return run_top(*options); }; });
}

}  // namespace rrdma::tools
