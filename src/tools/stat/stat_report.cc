#include "tools/stat/stat_report.h"

#include <algorithm>

#include "base/format.h"
#include "tools/stat/columns.h"
#include "tools/stat/other_daemons.h"
#include "tools/text_layout.h"
#include "wire/address_text.h"

namespace rrdma::tools {
namespace {

bool is_on_device(const ObservedProcess& process, const std::string& device) {
  // "rrdma0 on eth0, rrdma1 on lo": match a whole name.
  const std::string& devices = process.entry.devices;
  for (std::size_t at = devices.find(device); at != std::string::npos; at = devices.find(device, at + 1)) {
    const std::size_t end = at + device.size();
    if ((at == 0 || devices[at - 1] == ' ') &&
        (end == devices.size() || devices[end] == ' ' || devices[end] == ','))
      return true;
  }
  return false;
}

// The traffic of one process by device.
std::vector<control::DeviceEntry> devices_of(const Observation& seen, std::uint32_t pid) {
  std::vector<control::DeviceEntry> devices;
  for (const ObservedProcess& process : seen.processes) {
    if (process.entry.pid != pid) continue;
    for (const control::DeviceSnapshot& device : process.devices)
      devices.push_back({.name = device.name, .programs = 1, .counters = device.counters});
  }
  return devices;
}

std::string network_text(const control::NetworkState& network) {
  switch (network.families) {
    case control::kFamilyV4 | control::kFamilyV6: return "IPv4 and IPv6";
    case control::kFamilyV4: return "IPv4 only";
    case control::kFamilyV6: return "IPv6 only";
    default: return "none";
  }
}

// The programs of other users are private; the existence of their daemons is not.
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
  std::string text = formatted("Daemon pid {}{}, up {}, network {}, {} of {} slots held\n", daemon.daemon_pid,
                               daemon.is_system ? " (for all users)" : "", duration_text(daemon.uptime_ms),
                               network_text(daemon.network), daemon.slots_held, control::kSlotCount - 1);
  if (!daemon.network.reason.empty()) {
    text +=
        formatted("{}{}{}\n{}\n", palette.alert, daemon.network.reason, palette.reset, daemon.network.remedy);
  }
  return text + other_users_text(now);
}

// Changes since the previous observation, per second.
class Rates {
 public:
  Rates(const Observation& now, const Observation* before) {
    if (before != nullptr) seconds_ = std::chrono::duration<double>(now.at - before->at).count();
  }
  [[nodiscard]] bool known() const { return seconds_ > 0; }
  [[nodiscard]] std::string text(std::uint64_t earlier, std::uint64_t later) const {
    return later < earlier ? "-" : short_number(static_cast<double>(later - earlier) / seconds_);
  }

 private:
  double seconds_ = 0;
};

std::string table_of_processes(const Observation& now, const Observation* before, const TableForm& form,
                               const wire::Palette& palette) {
  if (now.processes.empty()) return now.daemon ? "No program uses RRDMA now.\n" : "";
  return table_of(TableKind::kProcesses, samples_of_processes(now, before), form, palette);
}

std::string table_of_queue_pairs(const Observation& now, const Observation* before, const TableForm& form,
                                 const wire::Palette& palette) {
  const auto samples = samples_of_queue_pairs(now, before);
  return samples.empty() ? "No queue pair.\n" : table_of(TableKind::kQueuePairs, samples, form, palette);
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
  if (qp == nullptr) return formatted("No queue pair {:#08x}.\n", *choice.qpn);
  const control::QpSnapshot* earlier = first_queue_pair(before);
  const ObservedProcess& process = now.processes.front();
  return formatted("QP {:#08x} of {} (pid {}): {}, {}, over {}, path MTU {}, peer {}\n", qp->fields.qpn,
                   process.entry.program, process.entry.pid, qp_type_name(qp->fields.type),
                   qp_state_name(qp->fields.state), qp_link_name(qp->fields.link),
                   qp->fields.path_mtu_code == 0 ? 0 : 128u << qp->fields.path_mtu_code,
                   peer_text(qp->fields)) +
         counter_table(named_counters(*qp),
                       earlier == nullptr ? std::vector<control::NamedCounter>() : named_counters(*earlier),
                       rates, true, palette);
}

// Empty if one address has carried all traffic.
std::string table_of_addresses(const Observation& now, const wire::Palette& palette) {
  const std::vector<Carried> all = carried_by_address(now);
  if (all.size() < 2) return "";
  Table table({{"ADDRESS"},
               {"QPS", Align::kRight},
               {"SENT", Align::kRight},
               {"RECEIVED", Align::kRight},
               {"SENT BYTES", Align::kRight},
               {"RECEIVED BYTES", Align::kRight}});
  for (const Carried& one : all) {
    std::vector<Cell> row = {wire::to_text(one.address), std::to_string(one.queue_pairs)};
    for (const auto which : {control::QpCounter::kSentMessages, control::QpCounter::kReceivedMessages,
                             control::QpCounter::kSentOctets, control::QpCounter::kReceivedOctets})
      row.push_back(std::to_string(one.counters[static_cast<std::size_t>(which)]));
    table.add(std::move(row));
  }
  return "\nBy the address of the device, of the queue pairs that exist:\n" +
         table.text(palette.name, palette.reset);
}

// The traffic of each device, including programs that have ended.
std::string table_of_devices(const Observation& now, std::size_t width, const wire::Palette& palette) {
  if (now.devices.empty()) return "";
  Table table({{"DEVICE"},
               {"PROGRAMS", Align::kRight, 1},
               {"SENT", Align::kRight, 3},
               {"RECEIVED", Align::kRight, 2},
               {"SENT BYTES", Align::kRight},
               {"RECEIVED BYTES", Align::kRight}});
  for (const control::DeviceEntry& device : now.devices) {
    std::vector<Cell> row = {device.name, std::to_string(device.programs)};
    for (const char* counter : {"messages_sent", "messages_received", "octets_sent", "octets_received"})
      row.push_back(std::to_string(value_of(device.counters, counter)));
    table.add(std::move(row));
  }
  return formatted("\nBy device, since the daemon began:\n{}",
                   table.text(palette.name, palette.reset, width));
}

std::vector<control::NamedCounter> counters_chosen(const Observation* seen, const StatChoice& choice) {
  if (seen == nullptr) return {};
  if (choice.device.empty()) return summed_counters(*seen);
  return seen->devices.empty() ? std::vector<control::NamedCounter>() : seen->devices.front().counters;
}

std::string counters_of_choice(const Observation& now, const Observation* before, const Rates& rates,
                               const StatChoice& choice, const wire::Palette& palette) {
  std::string text;
  if (choice.pid) {
    if (now.processes.empty()) return formatted("Process {} uses no RRDMA device.\n", *choice.pid);
    const control::ProcessEntry& entry = now.processes.front().entry;
    text = formatted("{} (pid {}) on {}, since {}\n", entry.program, entry.pid,
                     choice.device.empty() ? entry.devices : choice.device, duration_text(entry.age_ms));
  } else {
    if (now.devices.empty()) return formatted("No program uses {} now.\n", choice.device);
    const std::uint32_t programs = now.devices.front().programs;
    text = formatted("{}: {} {} it now; since the daemon began, {} ago\n", choice.device, programs,
                     programs == 1 ? "program uses" : "programs use",
                     duration_text(now.daemon ? now.daemon->uptime_ms : 0));
  }
  return text +
         counter_table(counters_chosen(&now, choice), counters_chosen(before, choice), rates, choice.zeros,
                       palette) +
         table_of_addresses(now, palette);
}

}  // namespace

std::vector<Carried> carried_by_address(const Observation& seen) {
  std::vector<Carried> all;
  for (const ObservedProcess& process : seen.processes) {
    for (const control::QpSnapshot& qp : process.queue_pairs) {
      if (qp.fields.local_gid.is_zero()) continue;
      auto known = std::lower_bound(
          all.begin(), all.end(), qp.fields.local_gid,
          [](const Carried& one, const wire::Gid& gid) { return one.address.octets < gid.octets; });
      if (known == all.end() || known->address != qp.fields.local_gid)
        known = all.insert(known, Carried{.address = qp.fields.local_gid});
      ++known->queue_pairs;
      for (std::size_t i = 0; i < known->counters.size(); ++i) known->counters[i] += qp.counters[i];
    }
  }
  return all;
}

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

std::string duration_text(std::uint64_t ms) {
  const std::uint64_t seconds = ms / 1000;
  if (seconds >= 3600) return formatted("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
  return seconds >= 60 ? formatted("{}m{:02}s", seconds / 60, seconds % 60) : formatted("{}s", seconds);
}

Observation chosen_part(Observation seen, const StatChoice& choice) {
  if (choice.pid) seen.devices = devices_of(seen, *choice.pid);
  if (!choice.device.empty()) {
    std::erase_if(seen.devices, [&](const auto& device) { return device.name != choice.device; });
    for (ObservedProcess& process : seen.processes) {
      std::erase_if(process.queue_pairs,
                    [&](const auto& qp) { return process.device_of(qp.fields) != choice.device; });
    }
  }
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
  const TableForm form{.rates = rates.known(), .width = columns};
  if (choice.queue_pairs) return table_of_queue_pairs(now, before, form, palette);
  if (choice.counters()) return counters_of_choice(now, before, rates, choice, palette);
  return daemon_text(now, palette) + table_of_processes(now, before, form, palette) +
         table_of_devices(now, columns, palette);
}

}  // namespace rrdma::tools
