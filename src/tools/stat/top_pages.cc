// The pages behind the tables of `rrdma top`: one queue pair, and what went wrong in its program.
#include <algorithm>

#include "base/format.h"
#include "host/explain_log.h"
#include "tools/explain/process_report.h"
#include "tools/stat/stat_report.h"
#include "tools/stat/top_report.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

// Lines `view.scrolled` and following, as many as fit. Fills up with empty lines, so that the keys stay at
// the bottom.
std::string scrolled(std::string_view text, std::size_t first, ScreenSize size) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  const std::size_t last = lines.size() > size.lines ? lines.size() - size.lines : 0;
  std::string shown;
  for (std::size_t i = 0; i < size.lines; ++i) {
    const std::size_t at = std::min(first, last) + i;
    if (at < lines.size()) shown += clipped(lines[at], size.columns);
    shown += "\n";
  }
  return shown;
}

std::string meter(std::uint64_t level, std::uint64_t capacity) {
  constexpr std::size_t kWidth = 20;
  if (capacity == 0) return "unknown";
  const std::size_t full = std::min<std::size_t>(kWidth, level * kWidth / capacity);
  std::string bar;
  for (std::size_t i = 0; i < kWidth; ++i) bar += i < full ? "█" : "░";
  return formatted("{} {} of {}", bar, level, capacity);
}

}  // namespace

std::string queue_pair_page(const Observation& now, const TopView& view, const RateHistory& history,
                            ScreenSize size, const wire::Palette& palette) {
  const ObservedProcess* owner = nullptr;
  const control::QpSnapshot* chosen = nullptr;
  for (const ObservedProcess& process : now.processes) {
    for (const control::QpSnapshot& qp : process.queue_pairs) {
      if (process.entry.pid != view.chosen.first || qp.fields.qpn != view.chosen.second) continue;
      owner = &process;
      chosen = &qp;
    }
  }
  if (chosen == nullptr)
    return scrolled("This queue pair is gone. `e` tells what went wrong in its program.\n", 0, size);
  const control::QpFields& fields = chosen->fields;
  const control::QpLevels& levels = chosen->levels;
  std::string text =
      formatted("{}QP {:#08x}{} of {} {}: {} {}, {} to {}\n\n", palette.name, fields.qpn, palette.reset,
                printable(owner->entry.program), owner->entry.pid, qp_type_name(fields.type),
                qp_state_name(fields.state), qp_link_name(fields.link), peer_text(fields));
  if (const RateHistory::Rates* rates = history.of(view.chosen)) {
    const std::size_t width = size.columns > 34 ? size.columns - 34 : 10;
    const auto line = [&](std::string_view name, const std::deque<double>& values, std::string_view unit) {
      if (values.empty()) return;
      text += formatted("  {:10} {:>10}{:4} {}\n", name, short_number(values.back()), unit,
                        sparkline(values, width));
    };
    line("sent", rates->sent_octets, "B/s");
    line("received", rates->received_octets, "B/s");
    line("resent", rates->resent, "/s");
    text += "\n";
  }
  text += formatted("  send queue     {}\n", meter(levels.send_queued, levels.send_capacity));
  text += formatted("  receive queue  {}\n", meter(levels.receive_posted, levels.receive_capacity));
  text += formatted("  window         {}\n", meter(levels.under_way, levels.window));
  text += formatted("  completions    {} not polled yet\n", levels.completions_waiting);
  if (levels.round_trip_ns != 0)
    text += formatted("  round trip     {:.1f} us\n", levels.round_trip_ns / 1e3);
  text += formatted("  PSNs           answered before {}, sent before {}, expects {}\n\n", levels.oldest_psn,
                    levels.next_psn, levels.expected_psn);
  for (std::size_t i = 0; i < kQpCounterNames.size(); ++i)
    text += formatted("  {:20} {}\n", kQpCounterNames[i], chosen->counters[i]);
  return scrolled(text, view.scrolled, size);
}

std::string explain_page(const TopView& view, ScreenSize size) {
  const host::ExplainedProcess process = host::read_explained(view.chosen.first);
  std::vector<host::ExplainedProcess> all;
  for (const std::uint32_t pid : host::explained_pids()) all.push_back(host::read_explained(pid));
  const Style style{.language = choose_language(""), .palette = {}, .columns = size.columns};
  host::ExplainedProcess shown = process;
  std::erase_if(shown.sentences,
                [](const host::Explained& said) { return said.severity == host::Severity::kDebug; });
  if (shown.sentences.empty())
    return scrolled(
        formatted("Process {}: no call was refused and no work request failed.\n", view.chosen.first), 0,
        size);
  return scrolled(text_of_process(shown, all, style), view.scrolled, size);
}

}  // namespace rrdma::tools
