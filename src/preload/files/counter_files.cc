#include "preload/files/counter_files.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>

#include "base/format.h"
#include "base/owned_fd.h"
#include "base/raw_syscall.h"
#include "control/client/daemon_client.h"
#include "nic/process/runtime.h"

namespace rrdma::files {
namespace {

// A busy daemon answers within milliseconds. A stopped daemon must not block the reader of a file.
constexpr Duration kPatience = seconds(1);
constexpr std::string_view kPorts = "/ports/1/";

struct CounterFile {
  std::string_view path;
  std::string_view counter;  // of the engine; empty: always `unit`
  std::uint64_t unit;        // the number of counts that make one here
};

constexpr CounterFile kFiles[] = {
    {"counters/port_xmit_data", "octets_sent", 4},
    {"counters/port_rcv_data", "octets_received", 4},
    {"counters/port_xmit_packets", "packets_sent", 1},
    {"counters/port_rcv_packets", "packets_received", 1},
    // A software link has no symbols or lanes to lose, no management lane, and no switch.
    {"counters/symbol_error", "", 0},
    {"counters/link_error_recovery", "", 0},
    {"counters/local_link_integrity_errors", "", 0},
    {"counters/excessive_buffer_overrun_errors", "", 0},
    {"counters/port_rcv_remote_physical_errors", "", 0},
    {"counters/port_rcv_switch_relay_errors", "", 0},
    {"counters/port_rcv_constraint_errors", "", 0},
    {"counters/port_xmit_constraint_errors", "", 0},
    {"counters/VL15_dropped", "", 0},
    {"hw_counters/sent_pkts", "packets_sent", 1},
    {"hw_counters/rcvd_pkts", "packets_received", 1},
    {"hw_counters/duplicate_request", "duplicates", 1},
    {"hw_counters/out_of_seq_request", "out_of_order", 1},
    {"hw_counters/rcvd_rnr_err", "rnr_naks_received", 1},
    {"hw_counters/send_rnr_err", "rnr_naks_sent", 1},
    {"hw_counters/rcvd_seq_err", "sequence_naks_received", 1},
    {"hw_counters/local_ack_timeout_err", "ack_timeouts", 1},
    {"hw_counters/np_cnp_sent", "cnps_sent", 1},
    {"hw_counters/np_ecn_marked_roce_packets", "ecn_marked", 1},
    {"hw_counters/rp_cnp_handled", "cnps_received", 1},
    {"hw_counters/lifespan", "", 100},  // ms: the maximum age of a value
};

// Nothing if no daemon answers. An empty list: no program has transferred anything since the daemon started.
std::optional<std::vector<control::NamedCounter>> counted_by(const std::string& device) {
  nic::Runtime::publish_counters();
  const auto client = control::DaemonClient::connect_or_start(
      {.role = control::Role::kTool, .may_start = false, .patience = kPatience});
  if (!client) {
    if (client.error().error == ECONNREFUSED) return std::vector<control::NamedCounter>();
    return std::nullopt;
  }
  auto listed = (*client)->list_devices();
  if (!listed) return std::nullopt;
  for (control::DeviceEntry& entry : *listed) {
    if (entry.name == device) return std::move(entry.counters);
  }
  return std::vector<control::NamedCounter>();
}

// Atomic: a reader sees the old line or the new one.
void replace_file(const std::string& root, const std::string& path, const std::string& line) {
  static std::atomic<unsigned> written{0};
  const std::string fresh = formatted("{}/new.{}.{}", root, raw::getpid(), written.fetch_add(1));
  {
    const OwnedFd fd(raw::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
    if (fd.get() < 0) return;
    if (raw::write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      (void)::unlink(fresh.c_str());
      return;
    }
  }
  if (std::rename(fresh.c_str(), (root + path).c_str()) != 0) (void)::unlink(fresh.c_str());
}

}  // namespace

std::vector<std::string> counter_paths() {
  std::vector<std::string> paths;
  for (const CounterFile& file : kFiles) paths.emplace_back(file.path);
  return paths;
}

std::string counter_line(std::string_view path, const std::vector<control::NamedCounter>& counted) {
  for (const CounterFile& file : kFiles) {
    if (file.path != path) continue;
    if (file.counter.empty()) return formatted("{}\n", file.unit);
    for (const control::NamedCounter& counter : counted)
      if (counter.name == file.counter) return formatted("{}\n", counter.value / file.unit);
  }
  return "0\n";
}

std::optional<CounterPlace> counter_place(std::string_view path) {
  const std::size_t at = path.find(kPorts);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view content = path.substr(at + kPorts.size());
  while (content.ends_with('/')) content.remove_suffix(1);
  const std::string_view folder = content.substr(0, content.find('/'));
  if (folder != "counters" && folder != "hw_counters") return std::nullopt;
  const std::string_view device = path.substr(0, at);
  return CounterPlace{.port = std::string(path.substr(0, at + kPorts.size())),
                      .device = std::string(device.substr(device.rfind('/') + 1)),
                      .content = std::string(content)};
}

void refresh_counters(const std::string& root, const CounterPlace& place) {
  const auto counted = counted_by(place.device);
  if (!counted) return;
  for (const CounterFile& file : kFiles) {
    if (file.counter.empty()) continue;
    if (file.path == place.content || file.path.starts_with(place.content + "/"))
      replace_file(root, place.port + std::string(file.path), counter_line(file.path, *counted));
  }
}

}  // namespace rrdma::files
