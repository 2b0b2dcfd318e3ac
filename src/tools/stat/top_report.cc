#include "tools/stat/top_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "tools/stat/other_daemons.h"
#include "tools/stat/stat_report.h"
#include "tools/text_layout.h"

namespace rrdma::tools {
namespace {

using control::QpCounter;

constexpr std::array<std::string_view, kTopOrderCount> kOrderNames = {"bytes", "messages", "resent", "rnr",
                                                                      "pid"};
constexpr std::size_t kProgramColumns = 15;
constexpr std::size_t kColumnsBesidePeer = 60;
constexpr std::size_t kPeerColumnsMin = 20;
// Head, three blank lines, the line of keys.
constexpr std::size_t kFixedLines = 5;
constexpr std::size_t kTableLinesMin = 2;

// What happened in a second; resent and RNR since the beginning too, because they are rare.
struct Activity {
  double sent = 0;
  double received = 0;
  double sent_octets = 0;
  double received_octets = 0;
  std::uint64_t resent = 0;
  std::uint64_t rnr = 0;
};

struct ProcessRow {
  const ObservedProcess* process;
  Activity activity;
};

struct QueuePairRow {
  const ObservedProcess* process;
  const control::QpSnapshot* qp;
  Activity activity;
};

double per_second(std::uint64_t before, std::uint64_t now, double seconds) {
  return now < before || seconds <= 0 ? 0 : static_cast<double>(now - before) / seconds;
}

class Comparison {
 public:
  Comparison(const Observation& now, const Observation* before) : before_(before) {
    if (before != nullptr) seconds_ = std::chrono::duration<double>(now.at - before->at).count();
  }

  [[nodiscard]] Activity of(const ObservedProcess& process) const {
    const ObservedProcess* earlier = find(process);
    const auto rate = [&](std::string_view name) {
      return earlier == nullptr ? 0 : per_second(earlier->counter(name), process.counter(name), seconds_);
    };
    return {rate("messages_sent"),   rate("messages_received"),         rate("octets_sent"),
            rate("octets_received"), process.counter("packets_resent"), process.counter("rnr_naks_received")};
  }
  [[nodiscard]] Activity of(const ObservedProcess& process, const control::QpSnapshot& qp) const {
    const control::QpSnapshot* earlier = find(process, qp);
    const auto rate = [&](QpCounter which) {
      return earlier == nullptr ? 0 : per_second(value_of(*earlier, which), value_of(qp, which), seconds_);
    };
    return {rate(QpCounter::kSentMessages),
            rate(QpCounter::kReceivedMessages),
            rate(QpCounter::kSentOctets),
            rate(QpCounter::kReceivedOctets),
            value_of(qp, QpCounter::kRetransmittedPackets),
            value_of(qp, QpCounter::kReceiverNotReady)};
  }

 private:
  [[nodiscard]] const ObservedProcess* find(const ObservedProcess& process) const {
    if (before_ == nullptr) return nullptr;
    for (const ObservedProcess& other : before_->processes) {
      if (other.entry.token == process.entry.token) return &other;
    }
    return nullptr;
  }
  [[nodiscard]] const control::QpSnapshot* find(const ObservedProcess& process,
                                                const control::QpSnapshot& qp) const {
    const ObservedProcess* earlier = find(process);
    if (earlier == nullptr) return nullptr;
    for (const control::QpSnapshot& other : earlier->queue_pairs) {
      if (other.fields.qpn == qp.fields.qpn) return &other;
    }
    return nullptr;
  }

  const Observation* before_;
  double seconds_ = 0;
};

double rank(const Activity& activity, TopOrder order) {
  switch (order) {
    case TopOrder::kOctets: return activity.sent_octets + activity.received_octets;
    case TopOrder::kMessages: return activity.sent + activity.received;
    case TopOrder::kResent: return static_cast<double>(activity.resent);
    case TopOrder::kRnr: return static_cast<double>(activity.rnr);
    case TopOrder::kPid: break;
  }
  return 0;
}

// Rows come in the order of their pids, and keep it where nothing else decides.
template <typename Row>
void sort_rows(std::vector<Row>& rows, const TopView& view) {
  if (view.order != TopOrder::kPid) {
    std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
      return rank(a.activity, view.order) > rank(b.activity, view.order);
    });
  }
  if (view.reversed) std::reverse(rows.begin(), rows.end());
}

std::string rate_text(double value) { return value == 0 ? "0" : short_number(value); }

Cell alarming(std::uint64_t value, std::string_view colour) {
  return value == 0 ? Cell("0") : Cell(short_number(static_cast<double>(value)), colour);
}

// The first `lines` lines of a table with its heading; the last one says how many more there are.
std::string cut(const std::string& text, std::size_t lines) {
  const auto all = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  if (all <= lines) return text;
  std::size_t end = 0;
  for (std::size_t i = 0; i + 1 < lines; ++i) end = text.find('\n', end) + 1;
  return text.substr(0, end) + fmt::format("… {} more\n", all - (lines - 1));
}

std::string table_of_processes(const std::vector<ProcessRow>& rows, const wire::Palette& palette) {
  Table table({{"PID", Align::kRight},
               {"PROGRAM"},
               {"QPS", Align::kRight},
               {"TX/s", Align::kRight},
               {"RX/s", Align::kRight},
               {"TX B/s", Align::kRight},
               {"RX B/s", Align::kRight},
               {"RESENT", Align::kRight},
               {"RNR", Align::kRight}});
  for (const auto& [process, activity] : rows) {
    table.add({std::to_string(process->entry.pid), clipped(process->entry.program, kProgramColumns),
               std::to_string(process->queue_pairs.size()), rate_text(activity.sent),
               rate_text(activity.received), rate_text(activity.sent_octets),
               rate_text(activity.received_octets), alarming(activity.resent, palette.alert),
               alarming(activity.rnr, palette.alert)});
  }
  return table.text(palette.name, palette.reset);
}

std::string table_of_queue_pairs(const std::vector<QueuePairRow>& rows, const wire::Palette& palette,
                                 std::size_t columns) {
  Table table({{"PID", Align::kRight},
               {"QPN"},
               {"STATE"},
               {"LINK"},
               {"PEER"},
               {"MSG/s", Align::kRight},
               {"B/s", Align::kRight},
               {"RESENT", Align::kRight},
               {"RNR", Align::kRight}});
  const std::size_t peer_columns = std::max(kPeerColumnsMin, columns - std::min(columns, kColumnsBesidePeer));
  for (const auto& [process, qp, activity] : rows) {
    const std::string_view state = qp_state_name(qp->fields.state);
    table.add({std::to_string(process->entry.pid), fmt::format("{:#08x}", qp->fields.qpn),
               Cell(std::string(state), state == "RTS"   ? palette.good
                                        : state == "ERR" ? palette.bad
                                                         : std::string_view()),
               std::string(qp_link_name(qp->fields.link)), clipped(peer_text(qp->fields), peer_columns),
               rate_text(activity.sent + activity.received),
               rate_text(activity.sent_octets + activity.received_octets),
               alarming(activity.resent, palette.alert), alarming(activity.rnr, palette.alert)});
  }
  return table.text(palette.name, palette.reset);
}

std::string head(const Observation& now, const std::vector<ProcessRow>& rows, std::size_t queue_pairs,
                 std::size_t columns, const wire::Palette& palette) {
  if (!now.daemon && !now.other_users.empty())
    return clipped("RRDMA top: no program of this user. " + other_daemons_text(now.other_users), columns) +
           "\n";
  if (!now.daemon)
    return clipped("RRDMA top: no program uses RRDMA in this network namespace now.", columns) + "\n";
  Activity total;
  for (const ProcessRow& row : rows) {
    total.sent += row.activity.sent;
    total.sent_octets += row.activity.sent_octets;
  }
  const std::string line =
      fmt::format("RRDMA top: {} {}, {} {}, {} messages/s, {}B/s sent; daemon {}, up {}", rows.size(),
                  rows.size() == 1 ? "process" : "processes", queue_pairs, queue_pairs == 1 ? "QP" : "QPs",
                  rate_text(total.sent), rate_text(total.sent_octets), now.daemon->daemon_pid,
                  duration_text(now.daemon->uptime_ms));
  return fmt::format("{}{}{}\n", palette.name, clipped(line, columns), palette.reset);
}

std::string keys(const TopView& view, std::size_t columns, const wire::Palette& palette) {
  const std::string line =
      fmt::format("q quit  s sort: {}  r {}  space {}", name_of(view.order),
                  view.reversed ? "reversed" : "reverse", view.paused ? "paused" : "pause");
  return fmt::format("{}{}{}", palette.name, clipped(line, columns), palette.reset);
}

}  // namespace

std::string_view name_of(TopOrder order) { return kOrderNames[static_cast<std::size_t>(order)]; }

std::optional<TopOrder> top_order(std::string_view name) {
  const auto found = std::find(kOrderNames.begin(), kOrderNames.end(), name);
  if (found == kOrderNames.end()) return std::nullopt;
  return static_cast<TopOrder>(found - kOrderNames.begin());
}

std::string top_screen(const Observation& now, const Observation* before, const TopView& view,
                       ScreenSize size, const wire::Palette& palette) {
  const Comparison comparison(now, before);
  std::vector<ProcessRow> processes;
  std::vector<QueuePairRow> queue_pairs;
  for (const ObservedProcess& process : now.processes) {
    processes.push_back({&process, comparison.of(process)});
    for (const control::QpSnapshot& qp : process.queue_pairs)
      queue_pairs.push_back({&process, &qp, comparison.of(process, qp)});
  }
  sort_rows(processes, view);
  sort_rows(queue_pairs, view);

  // Processes have up to half of the lines that are left, queue pairs the rest.
  const std::size_t left = std::max(size.lines - std::min(size.lines, kFixedLines), 2 * kTableLinesMin);
  const std::size_t process_lines =
      std::clamp(processes.size() + 1, kTableLinesMin, std::max(left / 2, kTableLinesMin));
  std::string text = head(now, processes, queue_pairs.size(), size.columns, palette);
  text += "\n" + cut(table_of_processes(processes, palette), process_lines);
  text += "\n" + cut(table_of_queue_pairs(queue_pairs, palette, size.columns), left - process_lines);
  return text + "\n" + keys(view, size.columns, palette);
}

}  // namespace rrdma::tools
