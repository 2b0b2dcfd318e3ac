#include "daemon/slots/port_holder.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "daemon/slots/parking.h"
#include "wire/udp.h"

namespace rrdma::daemon {
namespace {

// One line: "  12: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000  0 34567 ..."
void count_line(const std::string& line, PortHolder& holder) {
  std::istringstream fields(line);
  std::string number, local, remote, state, queues, timer, retransmits;
  uid_t uid = 0;
  unsigned long timeout = 0, inode = 0;
  if (!(fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >>
        inode))
    return;
  const auto colon = local.rfind(':');
  if (colon == std::string::npos ||
      std::strtoul(local.c_str() + colon + 1, nullptr, 16) != wire::kRoceUdpPort)
    return;
  ++holder.sockets;
  holder.uid = uid;
  holder.is_kernel = holder.is_kernel || inode == 0;
}

}  // namespace

PortHolder find_port_holder() {
  PortHolder holder;
  for (const char* path : {"/proc/net/udp", "/proc/net/udp6"}) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) count_line(line, holder);
  }
  return holder;
}

bool is_own_orphaned_group(const PortHolder& holder) {
  return holder.sockets >= parcel_slots(0) && !holder.is_kernel && holder.uid == ::geteuid();
}

std::string describe_user(uid_t uid) {
  std::vector<char> room(4096);
  passwd entry{};
  passwd* found = nullptr;
  const std::string number = "uid " + std::to_string(uid);
  if (::getpwuid_r(uid, &entry, room.data(), room.size(), &found) != 0 || found == nullptr) return number;
  return std::string(found->pw_name) + " (" + number + ")";
}

control::NetworkState explain_other_container() {
  return {
      .families = 0,
      .reason =
          "UDP port 4791 is held by RRDMA programs of the same user as this one, " +
          describe_user(::geteuid()) +
          ", but in another container or PID namespace, which counts as another user: RRDMA reaches only "
          "programs of this container on this host.",
      .remedy =
          "In the containers of one pod, set RRDMA_POD=1 for all programs. Otherwise have the administrator "
          "run one daemon for all (`systemctl enable --now rrdmad`; a container needs its /run/rrdma, or "
          "the host's abstract sockets), or give the container a network of its own."};
}

control::NetworkState explain_port_taken(const PortHolder& holder) {
  if (holder.is_kernel) {
    return {
        .families = 0,
        .reason =
            "UDP port 4791 is held by the kernel's own software RoCE (rdma_rxe), so RRDMA reaches only "
            "programs of this user on this host.",
        .remedy =
            "Remove the rxe device (as root: `rdma link delete NAME`, or `modprobe -r rdma_rxe`) and start "
            "the program again."};
  }
  // Ours by their uid, but no program offers them: see control/identity.h.
  if (is_own_orphaned_group(holder)) return explain_other_container();
  const std::string who =
      holder.sockets == 0 ? "another program" : "a program of user " + describe_user(holder.uid);
  return {
      .families = 0,
      .reason =
          "UDP port 4791 is held by " + who + ", so RRDMA reaches only programs of this user on this host.",
      .remedy =
          "Find it with `ss -ulpn 'sport = :4791'` (as root), end it, and start the program again; or run "
          "in a network namespace of your own."};
}

control::NetworkState explain_lock_taken(uid_t uid, pid_t pid) {
  std::string who = "user " + describe_user(uid);
  if (pid > 0) who += ", pid " + std::to_string(pid);
  return {
      .families = 0,
      .reason = "UDP port 4791 of this network namespace belongs to the RRDMA daemon of " + who +
                ", so programs of another user reach only each other on this host.",
      .remedy =
          "Have the administrator run one daemon for all users (`systemctl enable --now rrdmad`), or wait "
          "until that user's programs have ended."};
}

control::NetworkState explain_failure(const char* step, int error) {
  return {
      .families = 0,
      .reason = std::string("the sockets of UDP port 4791 could not be made (") + step + ": " +
                std::strerror(error) + "), so RRDMA reaches only programs of this user on this host.",
      .remedy =
          error == EMFILE || error == ETOOMANYREFS || error == ENFILE
              ? "Raise the limit of open files (`ulimit -n 4096`) and start the program again."
              : "Look for a sandbox (seccomp, container policy) that forbids UDP sockets or their options."};
}

}  // namespace rrdma::daemon
