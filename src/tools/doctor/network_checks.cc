// Checks of the network: UDP port 4791 and the daemon that holds it, the addresses and the MTU of the
// interface, and kernel RDMA devices beside ours.
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/format.h"
#include "base/owned_fd.h"
#include "base/raw_syscall.h"
#include "control/client/daemon_client.h"
#include "control/client/daemon_launch.h"
#include "daemon/slots/port_holder.h"
#include "daemon/slots/slot_socket.h"
#include "tools/doctor/finding.h"
#include "wire/address_text.h"

namespace rrdma::tools {
namespace {

constexpr unsigned kIbMtuLargest = 4096;
constexpr unsigned kPacketHeadersMax = 96;  // as in host::ib_mtu_code
constexpr const char* kPort = "port 4791";

// By raw system calls: under `rrdma run` the C library's calls also show the devices of RRDMA.
std::vector<std::string> entries_of(const char* folder) {
  std::vector<std::string> names;
  const OwnedFd fd(raw::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  alignas(dirent64) char room[4096];
  for (long octets; fd && (octets = ::syscall(SYS_getdents64, fd.get(), room, sizeof room)) > 0;) {
    for (long at = 0; at < octets;) {
      const auto* entry = reinterpret_cast<const dirent64*>(room + at);
      if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
      at += entry->d_reclen;
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Finding check_daemon_program() {
  const auto found = control::find_daemon();
  if (!found)
    return {Health::kBad, "daemon", found.error().sentence,
            "install RRDMA whole, or set RRDMA_DAEMON to the path of rrdmad"};
  return {.subject = "daemon", .sentence = "not running; programs start " + *found + " by themselves"};
}

// RRDMA does not hold the port. Check whether it could be bound.
Finding check_free_port() {
  for (const int family : {AF_INET, AF_INET6}) {
    const auto bound = daemon::bind_slot_socket(family, true);
    if (bound || bound.error() == EAFNOSUPPORT) continue;
    const daemon::PortHolder holder = daemon::find_port_holder();
    if (bound.error() == EADDRINUSE && daemon::is_own_orphaned_group(holder)) {
      return {
          .subject = kPort,
          .sentence = "held by programs of this user whose daemon has ended; the next daemon takes it over"};
    }
    const control::NetworkState state = bound.error() == EADDRINUSE
                                            ? daemon::explain_port_taken(holder)
                                            : daemon::explain_failure("bind", bound.error());
    return {Health::kBad, kPort, state.reason, state.remedy};
  }
  return {.subject = kPort, .sentence = "free"};
}

std::vector<Finding> check_running_daemon(const control::Status& status) {
  std::vector<Finding> findings;
  findings.push_back(
      {.subject = "daemon",
       .sentence =
           formatted("running: pid {}, version {}{}, {} of {} slots held", status.daemon_pid, status.version,
                     status.is_system ? ", for all users" : "", status.slots_held, control::kSlotCount - 1)});
  if (status.version != RRDMA_VERSION) {
    findings.back().health = Health::kWarn;
    findings.back().sentence += formatted("; this rrdma is version {}", RRDMA_VERSION);
    findings.back().remedy = "end the programs that use it (a system daemon: systemctl restart rrdmad)";
  }
  if (status.network.reason.empty()) {
    findings.push_back({.subject = kPort, .sentence = "held by the daemon"});
  } else {
    findings.push_back({status.network.families == 0 ? Health::kBad : Health::kWarn, kPort,
                        status.network.reason, status.network.remedy});
  }
  return findings;
}

}  // namespace

std::vector<Finding> check_port_and_daemon() {
  auto client = control::DaemonClient::connect_or_start({.role = control::Role::kTool, .may_start = false});
  if (client) {
    const auto status = (*client)->status();
    if (status) return check_running_daemon(*status);
    return {{Health::kBad, "daemon", status.error().sentence, "end it and the programs that use it"}};
  }
  if (client.error().error != ECONNREFUSED)
    return {{Health::kBad, "daemon", client.error().sentence, "end the programs that use it, and try again"}};
  return {check_daemon_program(), check_free_port()};
}

Finding check_addresses(const LocalDevice& device) {
  const std::string subject = device.identity.name;
  std::string addresses;
  for (const host::GidEntry& entry : device.gids) {
    if (entry.valid) addresses += (addresses.empty() ? "" : ", ") + wire::to_text(entry.gid);
  }
  const std::string& interface = device.identity.interface;
  if (!device.port.up)
    return {Health::kBad, subject, "the interface " + interface + " is down",
            "as root: ip link set " + interface + " up; or choose another: --netdev IF"};
  if (addresses.empty())
    return {Health::kBad, subject, "the interface " + interface + " has no address",
            "as root: ip addr add ADDRESS/PREFIX dev " + interface + "; or choose another: --netdev IF"};
  if (device.loopback) {
    return {.subject = subject,
            .sentence = formatted("on {} ({}): programs of this host reach each other; for other hosts "
                                  "choose an interface with --netdev",
                                  interface, addresses)};
  }
  return {.subject = subject, .sentence = formatted("on {} ({})", interface, addresses)};
}

Finding check_mtu(const LocalDevice& device) {
  const unsigned ib_mtu = ib_mtu_octets(device.port.mtu_code);
  Finding finding{.subject = "MTU",
                  .sentence = formatted("{} of {} gives an IB MTU of {}", device.port.interface_mtu,
                                        device.identity.interface, ib_mtu)};
  if (ib_mtu >= kIbMtuLargest) return finding;
  finding.health = Health::kWarn;
  finding.sentence += "; a path MTU of 4096 needs 4192";
  finding.remedy =
      formatted("where both ends and the network between them allow it, as root: ip link set {} mtu {}",
                device.identity.interface, kIbMtuLargest + kPacketHeadersMax);
  return finding;
}

Finding check_kernel_devices() {
  std::string names;
  for (const std::string& name : entries_of("/sys/class/infiniband"))
    names += (names.empty() ? "" : ", ") + name;
  if (names.empty()) return {.subject = "kernel devices", .sentence = "none; none is needed"};
  return {.subject = "kernel devices", .sentence = names + ": programs find them beside rrdma0"};
}

}  // namespace rrdma::tools
