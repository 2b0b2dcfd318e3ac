#include "tools/stat/observation.h"

#include <algorithm>
#include <cerrno>

#include "base/result_try.h"
#include "control/client/daemon_client.h"
#include "tools/stat/other_daemons.h"

namespace rrdma::tools {

std::uint64_t value_of(const std::vector<control::NamedCounter>& counters, std::string_view name) {
  for (const control::NamedCounter& counter : counters) {
    if (counter.name == name) return counter.value;
  }
  return 0;
}

std::uint64_t ObservedProcess::counter(std::string_view name) const { return value_of(counters, name); }

std::string_view ObservedProcess::device_of(const control::QpFields& fields) const {
  return fields.device == 0 || fields.device > devices.size() ? std::string_view()
                                                              : devices[fields.device - 1].name;
}

Result<Observation, Problem> observe() {
  Observation seen;
  seen.at = std::chrono::steady_clock::now();
  seen.other_users = other_users_with_daemons();
  auto client = control::DaemonClient::connect_or_start({.role = control::Role::kTool, .may_start = false});
  if (!client) {
    if (client.error().error == ECONNREFUSED) return seen;
    return Failure{client.error()};
  }
  auto status = (*client)->status();
  RRDMA_TRY(status);
  seen.daemon = std::move(*status);
  auto listed = (*client)->list_processes();
  RRDMA_TRY(listed);
  auto devices = (*client)->list_devices();
  RRDMA_TRY(devices);
  seen.devices = std::move(*devices);
  seen.at = std::chrono::steady_clock::now();
  for (control::ListedProcess& process : *listed) {
    if (!process.page) continue;  // a tool, or a program that publishes nothing
    const auto page = control::ProcessPageView::open(process.page.get());
    if (!page) continue;
    seen.processes.push_back({.entry = std::move(process.entry),
                              .counters = page->counters(),
                              .devices = page->devices(),
                              .queue_pairs = page->queue_pairs()});
  }
  std::sort(seen.processes.begin(), seen.processes.end(),
            [](const ObservedProcess& a, const ObservedProcess& b) { return a.entry.pid < b.entry.pid; });
  return seen;
}

std::string_view qp_state_name(std::uint8_t state) {
  constexpr std::array<std::string_view, 7> kNames = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state < kNames.size() ? kNames[state] : "?";
}

std::string_view qp_type_name(std::uint8_t type) {
  switch (type) {
    case 2: return "RC";
    case 3: return "UC";
    case 4: return "UD";
    case 9: return "XRC send";
    case 10: return "XRC recv";
    default: return "?";
  }
}

std::string_view qp_link_name(std::uint8_t link) {
  return link == control::kLinkShm ? "shm" : link == control::kLinkUdp ? "udp" : "?";
}

}  // namespace rrdma::tools
