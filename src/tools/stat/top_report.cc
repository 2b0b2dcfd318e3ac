#include "tools/stat/top_report.h"

#include <algorithm>
#include <vector>

#include "base/format.h"
#include "tools/stat/other_daemons.h"
#include "tools/stat/stat_report.h"

namespace rrdma::tools {
namespace {

// Header, three blank lines, the line of keys.
constexpr std::size_t kFixedLines = 5;
constexpr std::size_t kTableLinesMin = 2;

constexpr std::string_view kHelp =
    "Keys\n"
    "  q      quit\n"
    "  s      sort by the next column; the one that decides is marked *\n"
    "  r      reverse the order\n"
    "  /      show only rows with a text: program, pid, QPN, peer, state\n"
    "  Esc    show all rows again\n"
    "  space  stop, and go on\n"
    "  ?      this help\n"
    "\n"
    "Columns\n"
    "  TX RX     messages, and bytes (B), sent and received in a second\n"
    "  RESENT    packets sent again    RNR  the peer had no receive posted\n"
    "  ERR       requests that failed: `rrdma explain` says why\n"
    "RESENT, RNR and ERR count since the program began. Narrow terminals\n"
    "leave columns out.\n";

// The first `lines` lines of a table with its heading. The last line gives the number of those left out.
std::string cut(const std::string& text, std::size_t lines) {
  const auto all = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  if (all <= lines) return text;
  std::size_t end = 0;
  for (std::size_t i = 0; i + 1 < lines; ++i) end = text.find('\n', end) + 1;
  return text.substr(0, end) + formatted("… {} more\n", all - (lines - 1));
}

std::string clipped_lines(std::string_view text, ScreenSize size) {
  std::string result;
  for (std::size_t line = 0; line + 1 < size.lines && !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    result += clipped(text.substr(0, end), size.columns) + "\n";
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return result;
}

std::string head(const Observation& now, const std::vector<Sample>& processes, std::size_t queue_pairs,
                 std::size_t columns, const wire::Palette& palette) {
  if (!now.daemon && !now.other_users.empty())
    return clipped("RRDMA top: no program of this user. " + other_daemons_text(now.other_users), columns) +
           "\n";
  if (!now.daemon)
    return clipped("RRDMA top: no program uses RRDMA in this network namespace now.", columns) + "\n";
  Activity total;
  for (const Sample& sample : processes) {
    if (!sample.rate) continue;
    total.sent += sample.rate->sent;
    total.sent_octets += sample.rate->sent_octets;
    total.received_octets += sample.rate->received_octets;
  }
  const std::string line = formatted(
      "RRDMA top: {} {}, {} {}, {} messages/s, {}B/s sent, {}B/s received; daemon {}, up {}",
      processes.size(), processes.size() == 1 ? "process" : "processes", queue_pairs,
      queue_pairs == 1 ? "QP" : "QPs", short_number(total.sent), short_number(total.sent_octets),
      short_number(total.received_octets), now.daemon->daemon_pid, duration_text(now.daemon->uptime_ms));
  return formatted("{}{}{}\n", palette.name, clipped(line, columns), palette.reset);
}

std::string keys(const TopView& view, std::size_t columns, const wire::Palette& palette) {
  std::string line;
  if (view.help) {
    line = "any key: back";
  } else if (view.editing) {
    line = formatted("show only: {}_  (Enter: done, Esc: all)", view.filter);
  } else {
    line = formatted("q quit  ? help  s sort: {}  r {}  space {}  / {}", name_of(view.order),
                     view.reversed ? "reversed" : "reverse", view.paused ? "paused" : "pause",
                     view.filter.empty() ? "filter" : "only: " + view.filter);
  }
  return formatted("{}{}{}", palette.name, clipped(line, columns), palette.reset);
}

}  // namespace

std::string top_screen(const Observation& now, const Observation* before, const TopView& view,
                       ScreenSize size, const wire::Palette& palette) {
  if (view.help) return clipped_lines(kHelp, size) + keys(view, size.columns, palette);
  std::vector<Sample> processes = samples_of_processes(now, before);
  std::vector<Sample> queue_pairs = samples_of_queue_pairs(now, before);
  for (auto* samples : {&processes, &queue_pairs}) {
    std::erase_if(*samples, [&](const Sample& sample) { return !shows(sample, view.filter); });
    sort_samples(*samples, view.order, view.reversed);
  }
  // Processes get up to half of the remaining lines, queue pairs the rest.
  const std::size_t left = std::max(size.lines - std::min(size.lines, kFixedLines), 2 * kTableLinesMin);
  const std::size_t process_lines =
      std::clamp(processes.size() + 1, kTableLinesMin, std::max(left / 2, kTableLinesMin));
  const TableForm form{.rates = true, .marked = view.order, .width = size.columns};
  std::string text = head(now, processes, queue_pairs.size(), size.columns, palette);
  text += "\n" + cut(table_of(TableKind::kProcesses, processes, form, palette), process_lines);
  text += "\n" + cut(table_of(TableKind::kQueuePairs, queue_pairs, form, palette), left - process_lines);
  return text + "\n" + keys(view, size.columns, palette);
}

}  // namespace rrdma::tools
