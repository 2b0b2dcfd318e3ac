#include "tools/stat/stat_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/stat/other_daemons.h"
#include "tools/text_layout.h"
#include "wire/address_text.h"

namespace rrdma::tools {
namespace {

using control::QpCounter;

// So that lines fit 80 columns.
constexpr std::size_t kProgramColumns = 13;
constexpr std::size_t kColumnsBesidePeer = 66;
constexpr std::size_t kPeerColumnsMin = 15;

bool is_on_device(const ObservedProcess& process, const std::string& device) {
  // "rrdma0 on eth0, rrdma1 on lo": a whole name, not a part of one.
  const std::string& devices = process.entry.devices;
  for (std::size_t at = devices.find(device); at != std::string::npos; at = devices.find(device, at + 1)) {
    const std::size_t end = at + device.size();
    if ((at == 0 || devices[at - 1] == ' ') &&
        (end == devices.size() || devices[end] == ' ' || devices[end] == ','))
      return true;
  }
  return false;
}

std::string network_text(const control::NetworkState& network) {
  switch (network.families) {
    case control::kFamilyV4 | control::kFamilyV6: return "IPv4 and IPv6";
    case control::kFamilyV4: return "IPv4 only";
    case control::kFamilyV6: return "IPv6 only";
    default: return "none";
  }
}

// Their programs are theirs to look at; that there are some is no secret.
std::string other_users_text(const Observation& now) {
  if (now.other_users.empty()) return "";
  return other_daemons_text(now.other_users) +
         " A user's daemon answers that user alone: run `rrdma stat` as that user.\n";
}

std::string daemon_text(const Observation& now, const wire::Palette& palette) {
  if (!now.daemon) {
    return now.other_users.empty()
               ? "No RRDMA daemon is running here: no program uses RRDMA in this network namespace now.\n"
               : "No program of this user uses RRDMA in this network namespace now.\n" +
                     other_users_text(now);
  }
  const control::Status& daemon = *now.daemon;
  std::string text =
      fmt::format("Daemon pid {}{}, up {}, network {}, {} of {} slots held\n", daemon.daemon_pid,
                  daemon.is_system ? " (for all users)" : "", duration_text(daemon.uptime_ms),
                  network_text(daemon.network), daemon.slots_held, control::kSlotCount - 1);
  if (!daemon.network.reason.empty()) {
    text += fmt::format("{}{}{}\n{}\n", palette.alert, daemon.network.reason, palette.reset,
                        daemon.network.remedy);
  }
  return text + other_users_text(now);
}

// What happened since the observation before this one, per second.
class Rates {
 public:
  Rates(const Observation& now, const Observation* before) : before_(before) {
    if (before != nullptr) seconds_ = std::chrono::duration<double>(now.at - before->at).count();
  }
  [[nodiscard]] bool known() const { return seconds_ > 0; }

  [[nodiscard]] std::string of(const ObservedProcess& process, std::string_view counter) const {
    for (const ObservedProcess& earlier : before_->processes) {
      if (earlier.entry.token == process.entry.token)
        return text(earlier.counter(counter), process.counter(counter));
    }
    return "-";
  }
  [[nodiscard]] std::string of(const ObservedProcess& process, const control::QpSnapshot& qp,
                               QpCounter counter) const {
    for (const ObservedProcess& earlier : before_->processes) {
      if (earlier.entry.token != process.entry.token) continue;
      for (const control::QpSnapshot& row : earlier.queue_pairs) {
        if (row.fields.qpn == qp.fields.qpn) return text(value_of(row, counter), value_of(qp, counter));
      }
    }
    return "-";
  }
  [[nodiscard]] std::string text(std::uint64_t earlier, std::uint64_t later) const {
    return later < earlier ? "-" : short_number(static_cast<double>(later - earlier) / seconds_);
  }

 private:
  const Observation* before_;
  double seconds_ = 0;
};

std::string count_text(std::uint64_t value) { return short_number(static_cast<double>(value)); }

Cell alarming(std::uint64_t value, std::string_view colour) {
  return value == 0 ? Cell("0") : Cell(count_text(value), colour);
}

std::string table_of_processes(const Observation& now, const Rates& rates, const wire::Palette& palette) {
  if (now.processes.empty()) return now.daemon ? "No program uses RRDMA now.\n" : "";
  std::vector<Column> columns = {{"PID", Align::kRight},  {"PROGRAM"},
                                 {"QPS", Align::kRight},  {"TX", Align::kRight},
                                 {"RX", Align::kRight},   {"TX B", Align::kRight},
                                 {"RX B", Align::kRight}, {"RESENT", Align::kRight},
                                 {"RNR", Align::kRight},  {"ERR", Align::kRight}};
  if (rates.known()) {
    columns[3] = {"TX/s", Align::kRight};
    columns[4] = {"RX/s", Align::kRight};
    columns[5] = {"TX B/s", Align::kRight};
    columns[6] = {"RX B/s", Align::kRight};
  }
  Table table(std::move(columns));
  for (const ObservedProcess& process : now.processes) {
    const auto shown = [&](std::string_view name) {
      return rates.known() ? rates.of(process, name) : count_text(process.counter(name));
    };
    table.add({std::to_string(process.entry.pid), clipped(process.entry.program, kProgramColumns),
               std::to_string(process.queue_pairs.size()), shown("messages_sent"), shown("messages_received"),
               shown("octets_sent"), shown("octets_received"),
               alarming(process.counter("packets_resent"), palette.alert),
               alarming(process.counter("rnr_naks_received"), palette.alert),
               alarming(process.counter("error_completions"), palette.bad)});
  }
  return table.text(palette.name, palette.reset);
}

std::string table_of_queue_pairs(const Observation& now, const Rates& rates, const wire::Palette& palette,
                                 std::size_t columns) {
  const std::size_t peer_columns = std::max(kPeerColumnsMin, columns - std::min(columns, kColumnsBesidePeer));
  Table table({{"PID", Align::kRight},
               {"QPN"},
               {"TYPE"},
               {"STATE"},
               {"LINK"},
               {"PEER"},
               {rates.known() ? "TX/s" : "TX", Align::kRight},
               {rates.known() ? "RX/s" : "RX", Align::kRight},
               {"RESENT", Align::kRight},
               {"RNR", Align::kRight}});
  for (const ObservedProcess& process : now.processes) {
    for (const control::QpSnapshot& qp : process.queue_pairs) {
      const auto shown = [&](QpCounter which) {
        return rates.known() ? rates.of(process, qp, which) : count_text(value_of(qp, which));
      };
      const std::string_view state = qp_state_name(qp.fields.state);
      table.add({std::to_string(process.entry.pid), fmt::format("{:#08x}", qp.fields.qpn),
                 std::string(qp_type_name(qp.fields.type)),
                 Cell(std::string(state), state == "RTS"   ? palette.good
                                          : state == "ERR" ? palette.bad
                                                           : std::string_view()),
                 std::string(qp_link_name(qp.fields.link)), clipped(peer_text(qp.fields), peer_columns),
                 shown(QpCounter::kSentMessages), shown(QpCounter::kReceivedMessages),
                 alarming(value_of(qp, QpCounter::kRetransmittedPackets), palette.alert),
                 alarming(value_of(qp, QpCounter::kReceiverNotReady), palette.alert)});
    }
  }
  return table.empty() ? "No queue pair.\n" : table.text(palette.name, palette.reset);
}

// Names with values summed over the processes, in the order of the first one that has them.
std::vector<control::NamedCounter> summed_counters(const Observation& seen) {
  std::vector<control::NamedCounter> sums;
  for (const ObservedProcess& process : seen.processes) {
    for (const control::NamedCounter& counter : process.counters) {
      const auto known =
          std::find_if(sums.begin(), sums.end(), [&](const auto& sum) { return sum.name == counter.name; });
      if (known == sums.end()) {
        sums.push_back(counter);
      } else {
        known->value += counter.value;
      }
    }
  }
  return sums;
}

std::string counter_table(const std::vector<control::NamedCounter>& now,
                          const std::vector<control::NamedCounter>& before, const Rates& rates, bool zeros,
                          const wire::Palette& palette) {
  std::vector<Column> columns = {{"COUNTER"}, {"VALUE", Align::kRight}};
  if (rates.known()) columns.push_back({"PER SECOND", Align::kRight});
  Table table(std::move(columns));
  for (const control::NamedCounter& counter : now) {
    if (counter.value == 0 && !zeros) continue;
    std::vector<Cell> row = {counter.name, std::to_string(counter.value)};
    if (rates.known()) {
      const auto earlier = std::find_if(before.begin(), before.end(),
                                        [&](const auto& other) { return other.name == counter.name; });
      row.push_back(earlier == before.end() ? "-" : rates.text(earlier->value, counter.value));
    }
    table.add(std::move(row));
  }
  return table.empty() ? "Every counter is 0.\n" : table.text(palette.name, palette.reset);
}

std::vector<control::NamedCounter> named_counters(const control::QpSnapshot& qp) {
  std::vector<control::NamedCounter> list;
  for (std::size_t i = 0; i < kQpCounterNames.size(); ++i)
    list.push_back({std::string(kQpCounterNames[i]), qp.counters[i]});
  return list;
}

const control::QpSnapshot* first_queue_pair(const Observation* seen) {
  if (seen == nullptr || seen->processes.empty() || seen->processes.front().queue_pairs.empty())
    return nullptr;
  return &seen->processes.front().queue_pairs.front();
}

std::string one_queue_pair(const Observation& now, const Observation* before, const Rates& rates,
                           const StatChoice& choice, const wire::Palette& palette) {
  const control::QpSnapshot* qp = first_queue_pair(&now);
  if (qp == nullptr) return fmt::format("No queue pair {:#08x}.\n", *choice.qpn);
  const control::QpSnapshot* earlier = first_queue_pair(before);
  const ObservedProcess& process = now.processes.front();
  return fmt::format("QP {:#08x} of {} (pid {}): {}, {}, over {}, path MTU {}, peer {}\n", qp->fields.qpn,
                     process.entry.program, process.entry.pid, qp_type_name(qp->fields.type),
                     qp_state_name(qp->fields.state), qp_link_name(qp->fields.link),
                     qp->fields.path_mtu_code == 0 ? 0 : 128u << qp->fields.path_mtu_code,
                     peer_text(qp->fields)) +
         counter_table(named_counters(*qp),
                       earlier == nullptr ? std::vector<control::NamedCounter>() : named_counters(*earlier),
                       rates, true, palette);
}

std::string counters_of_choice(const Observation& now, const Observation* before, const Rates& rates,
                               const StatChoice& choice, const wire::Palette& palette) {
  if (now.processes.empty()) {
    return choice.pid ? fmt::format("Process {} uses no RRDMA device.\n", *choice.pid)
                      : fmt::format("No program uses {} now.\n", choice.device);
  }
  std::string text;
  if (choice.pid) {
    const control::ProcessEntry& entry = now.processes.front().entry;
    text = fmt::format("{} (pid {}) on {}, since {}\n", entry.program, entry.pid, entry.devices,
                       duration_text(entry.age_ms));
  } else {
    text = fmt::format("{}: sums over {} {}\n", choice.device, now.processes.size(),
                       now.processes.size() == 1 ? "process" : "processes");
  }
  return text +
         counter_table(summed_counters(now),
                       before == nullptr ? std::vector<control::NamedCounter>() : summed_counters(*before),
                       rates, choice.zeros, palette);
}

nlohmann::ordered_json queue_pair_json(const control::QpSnapshot& qp) {
  nlohmann::ordered_json json = {
      {"qpn", qp.fields.qpn},
      {"type", qp_type_name(qp.fields.type)},
      {"state", qp_state_name(qp.fields.state)},
      {"link", qp_link_name(qp.fields.link)},
      {"path_mtu", qp.fields.path_mtu_code == 0 ? 0 : 128u << qp.fields.path_mtu_code},
      {"peer_qpn", qp.fields.peer_qpn},
      {"peer", wire::to_text(qp.fields.peer_gid)}};
  for (std::size_t i = 0; i < kQpCounterNames.size(); ++i)
    json[std::string(kQpCounterNames[i])] = qp.counters[i];
  return json;
}

nlohmann::ordered_json daemon_json(const control::Status& daemon) {
  auto counters = nlohmann::ordered_json::object();
  for (const control::NamedCounter& counter : daemon.counters) counters[counter.name] = counter.value;
  return {{"pid", daemon.daemon_pid},
          {"uid", daemon.daemon_uid},
          {"version", daemon.version},
          {"is_system", daemon.is_system},
          {"uptime_ms", daemon.uptime_ms},
          {"slots_held", daemon.slots_held},
          {"ipv4", (daemon.network.families & control::kFamilyV4) != 0},
          {"ipv6", (daemon.network.families & control::kFamilyV6) != 0},
          {"reason", daemon.network.reason},
          {"remedy", daemon.network.remedy},
          {"counters", counters}};
}

}  // namespace

std::string duration_text(std::uint64_t ms) {
  const std::uint64_t seconds = ms / 1000;
  if (seconds >= 3600) return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
  return seconds >= 60 ? fmt::format("{}m{:02}s", seconds / 60, seconds % 60) : fmt::format("{}s", seconds);
}

std::string peer_text(const control::QpFields& fields) {
  if (fields.peer_gid.is_zero()) return "-";
  return fmt::format("{} {:#08x}", wire::to_text(fields.peer_gid), fields.peer_qpn);
}

Observation chosen_part(Observation seen, const StatChoice& choice) {
  std::erase_if(seen.processes, [&](const ObservedProcess& process) {
    return (choice.pid && process.entry.pid != *choice.pid) ||
           (!choice.device.empty() && !is_on_device(process, choice.device));
  });
  if (choice.qpn) {
    for (ObservedProcess& process : seen.processes) {
      std::erase_if(process.queue_pairs,
                    [&](const control::QpSnapshot& qp) { return qp.fields.qpn != *choice.qpn; });
    }
    std::erase_if(seen.processes, [](const ObservedProcess& process) { return process.queue_pairs.empty(); });
  }
  return seen;
}

std::string stat_text(const Observation& now, const Observation* before, const StatChoice& choice,
                      const wire::Palette& palette, std::size_t columns) {
  const Rates rates(now, before);
  if (choice.qpn) return one_queue_pair(now, before, rates, choice, palette);
  if (choice.queue_pairs) return table_of_queue_pairs(now, rates, palette, columns);
  if (choice.counters()) return counters_of_choice(now, before, rates, choice, palette);
  return daemon_text(now, palette) + table_of_processes(now, rates, palette);
}

nlohmann::ordered_json stat_json(const Observation& now, const StatChoice& choice) {
  auto processes = nlohmann::ordered_json::array();
  for (const ObservedProcess& process : now.processes) {
    auto counters = nlohmann::ordered_json::object();
    for (const control::NamedCounter& counter : process.counters) counters[counter.name] = counter.value;
    auto queue_pairs = nlohmann::ordered_json::array();
    for (const control::QpSnapshot& qp : process.queue_pairs) queue_pairs.push_back(queue_pair_json(qp));
    processes.push_back({{"pid", process.entry.pid},
                         {"uid", process.entry.uid},
                         {"program", process.entry.program},
                         {"devices", process.entry.devices},
                         {"age_ms", process.entry.age_ms},
                         {"counters", counters},
                         {"queue_pairs", queue_pairs}});
  }
  auto others = nlohmann::ordered_json::array();
  for (const uid_t uid : now.other_users) others.push_back({{"uid", uid}});
  nlohmann::ordered_json json = {{"daemon", now.daemon ? daemon_json(*now.daemon) : nlohmann::ordered_json()},
                                 {"processes", processes},
                                 {"other_daemons", others}};
  if (!choice.device.empty()) {
    auto sums = nlohmann::ordered_json::object();
    for (const control::NamedCounter& counter : summed_counters(now)) sums[counter.name] = counter.value;
    json["device"] = {{"device", choice.device}, {"counters", sums}};
  }
  return json;
}

}  // namespace rrdma::tools
