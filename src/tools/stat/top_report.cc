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
    "  ↑ ↓    choose a queue pair; PgUp PgDn Home End move further\n"
    "  Enter  the queue pair alone: rates, queues, counters\n"
    "  e      explain: what went wrong in its program\n"
    "  c      capture its program for 5 seconds into a file\n"
    "  f      inject a fault into it\n"
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

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// A table with its heading in `lines` lines, scrolled so that row `cursor` is visible. The last line gives
// the number of those left out.
std::string cut(const std::vector<std::string>& table, std::size_t lines, std::size_t cursor = 0) {
  std::string text;
  const std::size_t rows = table.size() - 1, room = lines - 1;
  if (rows <= room) {
    for (const std::string& line : table) text += line + "\n";
    return text;
  }
  const std::size_t visible = room > 1 ? room - 1 : 0;
  const std::size_t first =
      visible == 0 || cursor < visible ? 0 : std::min(cursor - visible + 1, rows - visible);
  text += table[0] + "\n";
  for (std::size_t i = 0; i < visible; ++i) text += table[1 + first + i] + "\n";
  return text + formatted("… {} more\n", rows - visible);
}

// The number of columns that a line takes on the screen.
std::size_t columns_of(std::string_view line) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      i = std::min(line.find('m', i), line.size() - 1);
    } else if ((static_cast<unsigned char>(line[i]) & 0xc0) != 0x80) {
      ++columns;
    }
  }
  return columns;
}

RateHistory::Key key_of(const Sample& sample) { return {sample.process->entry.pid, sample.qp->fields.qpn}; }

// The rows get their sparklines, if the terminal is wide enough, and the chosen one is shown inverted.
void decorate(std::vector<std::string>& table, const std::vector<Sample>& samples, std::size_t cursor,
              const RateHistory& history, std::size_t width) {
  constexpr std::size_t kSparkWidth = 24, kSparkMin = 12;
  for (std::size_t i = 0; i < samples.size() && i + 1 < table.size(); ++i) {
    std::string& line = table[i + 1];
    const std::size_t used = columns_of(line) + 2;
    const RateHistory::Rates* rates = history.of(key_of(samples[i]));
    if (rates != nullptr && used + kSparkMin <= width)
      line += "  " + sparkline(rates->sent_octets, std::min(kSparkWidth, width - used));
    if (i == cursor) line = "\x1b[7m" + line + "\x1b[0m";
  }
}

std::vector<Sample> rows_of(const Observation& now, const Observation* before, const TopView& view) {
  std::vector<Sample> samples = samples_of_queue_pairs(now, before);
  std::erase_if(samples, [&](const Sample& sample) { return !shows(sample, view.filter); });
  sort_samples(samples, view.order, view.reversed);
  return samples;
}

std::size_t cursor_of(const std::vector<Sample>& samples, const TopView& view) {
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (key_of(samples[i]) == view.chosen) return i;
  return 0;
}

// The queue pair that the keys act on, or the result of the last key.
std::string chosen_line(const std::vector<Sample>& samples, std::size_t cursor, const TopView& view,
                        std::size_t columns) {
  if (!view.said.empty()) return clipped(view.said, columns) + "\n";
  if (samples.empty()) return "\n";
  const Sample& sample = samples[cursor];
  return clipped(formatted("▸ {} of {}: QP {:#08x} of {} {}", cursor + 1, samples.size(),
                           sample.qp->fields.qpn, sample.process->entry.program, sample.process->entry.pid),
                 columns) +
         "\n";
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
  } else if (view.asking) {
    line = formatted("inject: {}_  (Enter: set, Esc: no)", view.fault);
  } else if (view.page != TopView::Page::kTables) {
    line = "Esc back  ↑ ↓ scroll  e explain  c capture  f fault  q quit";
  } else if (view.editing) {
    line = formatted("show only: {}_  (Enter: done, Esc: all)", view.filter);
  } else {
    line = formatted("q quit  ? help  s sort: {}  r {}  space {}  / {}", name_of(view.order),
                     view.reversed ? "reversed" : "reverse", view.paused ? "paused" : "pause",
                     view.filter.empty() ? "filter" : "only: " + view.filter);
    constexpr std::string_view kMore = "  ↑↓ Enter  e explain  c capture  f fault";
    if (columns_of(line) + columns_of(kMore) <= columns) line += kMore;
  }
  return formatted("{}{}{}", palette.name, clipped(line, columns), palette.reset);
}

}  // namespace

std::vector<RateHistory::Key> shown_queue_pairs(const Observation& now, const Observation* before,
                                                const TopView& view) {
  std::vector<RateHistory::Key> keys;
  for (const Sample& sample : rows_of(now, before, view)) keys.push_back(key_of(sample));
  return keys;
}

std::string top_screen(const Observation& now, const Observation* before, const TopView& view,
                       const RateHistory& history, ScreenSize size, const wire::Palette& palette) {
  if (view.help) return clipped_lines(kHelp, size) + keys(view, size.columns, palette);
  if (view.page != TopView::Page::kTables) {
    const ScreenSize inner{size.columns, size.lines - std::min<std::size_t>(size.lines - 1, 2)};
    std::string page = view.page == TopView::Page::kExplain
                           ? explain_page(view, inner)
                           : queue_pair_page(now, view, history, inner, palette);
    return page + clipped(view.said, size.columns) + "\n" + keys(view, size.columns, palette);
  }
  std::vector<Sample> processes = samples_of_processes(now, before);
  std::erase_if(processes, [&](const Sample& sample) { return !shows(sample, view.filter); });
  sort_samples(processes, view.order, view.reversed);
  const std::vector<Sample> queue_pairs = rows_of(now, before, view);
  const std::size_t cursor = cursor_of(queue_pairs, view);
  // Processes get up to half of the remaining lines, queue pairs the rest.
  const std::size_t left = std::max(size.lines - std::min(size.lines, kFixedLines), 2 * kTableLinesMin);
  const std::size_t process_lines =
      std::clamp(processes.size() + 1, kTableLinesMin, std::max(left / 2, kTableLinesMin));
  const TableForm form{.rates = true, .marked = view.order, .width = size.columns};
  std::string text = head(now, processes, queue_pairs.size(), size.columns, palette);
  text += "\n" + cut(lines_of(table_of(TableKind::kProcesses, processes, form, palette)), process_lines);
  std::vector<std::string> table = lines_of(table_of(TableKind::kQueuePairs, queue_pairs, form, palette));
  decorate(table, queue_pairs, cursor, history, size.columns);
  text += "\n" + cut(table, left - process_lines, cursor);
  return text + chosen_line(queue_pairs, cursor, view, size.columns) + keys(view, size.columns, palette);
}

}  // namespace rrdma::tools
