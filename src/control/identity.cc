#include "control/identity.h"

#include <linux/nsfs.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/owned_fd.h"
#include "base/process_facts.h"
#include "control/raw_stat.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace rrdma::control {
namespace {

constexpr uid_t kOverflowUid = 65534;

std::uint64_t inode_of(const std::string& path) {
  struct stat status {};
  return raw_stat(path.c_str(), status) == 0 ? status.st_ino : 0;
}

// Whether /proc/self/uid_map is that of the initial namespace: "0 0 4294967295", every number but -1.
bool namespace_maps_every_uid() {
  const std::string text = proc_text("/proc/self/uid_map").value_or("");
  const char* at = text.c_str();
  char* rest = nullptr;
  const unsigned long inside = std::strtoul(at, &rest, 10);
  std::strtoul(rest, &rest, 10);
  const unsigned long count = std::strtoul(rest, &rest, 10);
  return inside == 0 && count >= 0xffffffffUL;
}

// Whether a process that we can see lives in our PID namespace, and not in one below it.
bool is_as_deep(const std::string& folder) {
  const auto depth = lineage_of(folder).pids.size();
  return depth != 0 && depth == lineage_of("/proc/self").pids.size();
}

bool has_our_uid_map(pid_t pid) {
  const auto own = proc_text("/proc/self/uid_map");
  const std::string folder = proc_folder(pid);
  return own && !folder.empty() && proc_text(folder + "/uid_map") == own;
}

bool is_there(pid_t pid) {
  const std::string folder = proc_folder(pid);
  return !folder.empty() && proc_text(folder + "/uid_map");
}

}  // namespace

Namespaces own_namespaces() {
  return {.user = inode_of("/proc/self/ns/user"), .pid = inode_of("/proc/self/ns/pid")};
}

Namespaces namespaces_of(pid_t pid) {
  const std::string folder = proc_folder(pid);
  if (folder.empty()) return {};
  Namespaces found{.user = inode_of(folder + "/ns/user"), .pid = inode_of(folder + "/ns/pid")};
  if (found.pid == 0 && is_as_deep(folder)) found.pid = own_namespaces().pid;
  if (found.user == 0 && has_our_uid_map(pid)) found.user = own_namespaces().user;
  return found;
}

namespace {

// Whether the process that connected has ended, so that its number may be another's. A kernel before 6.5
// cannot tell, unless no process has the number.
bool has_ended(int socket, pid_t pid) {
  int number = -1;
  socklen_t size = sizeof number;
  if (raw::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &number, &size) < 0)
    return errno == ESRCH || errno == EINVAL || (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH);
  const OwnedFd process(number);
  pollfd end{.fd = process.get(), .events = POLLIN, .revents = 0};
  const timespec none{};
  return raw::ppoll(&end, 1, &none) == 1;
}

}  // namespace

PeerIdentity peer_identity(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (raw::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0) return {};
  PeerIdentity peer{.pid = credentials.pid, .uid = credentials.uid, .namespaces = {}};
  if (peer.pid > 0) peer.namespaces = namespaces_of(peer.pid);
  if (has_ended(socket, peer.pid)) return {.pid = 0, .uid = peer.uid, .namespaces = {}, .has_ended = true};
  return peer;
}

bool uid_is_unambiguous(uid_t uid) { return uid != kOverflowUid || namespace_maps_every_uid(); }

bool trusts_pod() {
  static const bool trusts = [] {
    const char* value = ::secure_getenv("RRDMA_POD");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return trusts;
}

bool is_own_user(const PeerIdentity& peer) {
  if (peer.uid != ::geteuid()) return false;
  const Namespaces own = own_namespaces();
  // The kernel translated the uid into our user namespace: an equal number that stands for itself is the same
  // user.
  if (trusts_pod() && uid_is_unambiguous(peer.uid) && own.known() &&
      (peer.namespaces.user == own.user || peer.namespaces.user == 0))
    return true;
  // Without /proc, the right to signal the process is the best evidence.
  const bool may_signal = peer.pid > 0 && ::kill(peer.pid, 0) == 0;
  if (!own.known()) return may_signal;
  return peer.namespaces == own && (uid_is_unambiguous(peer.uid) || may_signal);
}

namespace {

// Two of them may get the same account; then they share it.
uid_t account_of_container(std::uint64_t its_namespace) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  return kContainerAccounts | static_cast<uid_t>(its_namespace * kOdd >> 34);
}

std::string text_of_file(const char* path) {
  const OwnedFd file(raw::open(path, O_RDONLY | O_CLOEXEC));
  std::string text;
  char part[4096];
  for (ssize_t size = 0; file && (size = raw::read(file.get(), part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(size));
  return text;
}

// The lines of a file of fields between colons that have at least three.
std::vector<std::array<std::string, 3>> fields_of_file(const char* path) {
  const std::string text = text_of_file(path);
  std::vector<std::array<std::string, 3>> lines;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    lines.push_back({line.substr(0, first), line.substr(first + 1, second - first - 1),
                     line.substr(second + 1, line.find(':', second + 1) - second - 1)});
  }
  return lines;
}

unsigned long number_in(const std::string& text) { return std::strtoul(text.c_str(), nullptr, 10); }

// Changes with the file.
struct FileVersion {
  std::uint64_t inode = 0;
  std::int64_t size = 0, seconds = 0, nanoseconds = 0;
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};
FileVersion version_of(const char* path) {
  struct stat status {};
  if (raw_stat(path, status) != 0) return {};
  return {status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

// The ranges of /etc/subuid, such as "alice:100000:65536", with the accounts of their owners. getpwnam would
// ask servers of the network for a name that is not in /etc/passwd, and all users would wait. Such an owner
// has an account of its own for its ranges, and so has each range of our own user, which is for containers.
class SubordinateUids {
 public:
  // If several ranges hold the uid, not that of our own user.
  std::optional<uid_t> account_of(uid_t uid) {
    read_again_if_changed();
    std::optional<uid_t> found;
    for (const Range& range : ranges_) {
      if (uid < range.begin || uid - range.begin >= range.count) continue;
      if (!range.is_ours) return range.account;
      if (!found) found = range.account;
    }
    return found;
  }

 private:
  struct Range {
    unsigned long begin, count;
    uid_t account;
    bool is_ours;
  };

  void read_again_if_changed() {
    const std::array<FileVersion, 2> versions = {version_of(kRanges), version_of(kUsers)};
    if (versions == versions_) return;
    versions_ = versions;
    ranges_.clear();
    std::unordered_map<std::string, uid_t> users;
    for (const auto& [user, password, uid] : fields_of_file(kUsers))
      users.try_emplace(user, static_cast<uid_t>(number_in(uid)));
    for (const auto& [name, begin, count] : fields_of_file(kRanges)) {
      const auto owner = uid_of(name, users);
      const bool is_ours = owner == ::geteuid();
      const uid_t account = is_ours ? account_of_container(number_in(begin))
                                    : owner.value_or(account_of_container(std::hash<std::string>{}(name)));
      ranges_.push_back({number_in(begin), number_in(count), account, is_ours});
    }
  }

  // Of a user by name or number.
  static std::optional<uid_t> uid_of(const std::string& name,
                                     const std::unordered_map<std::string, uid_t>& users) {
    if (name.find_first_not_of("0123456789") == std::string::npos) return static_cast<uid_t>(number_in(name));
    const auto found = users.find(name);
    return found == users.end() ? std::nullopt : std::optional(found->second);
  }

  static constexpr const char* kRanges = "/etc/subuid";
  static constexpr const char* kUsers = "/etc/passwd";
  std::array<FileVersion, 2> versions_{};
  std::vector<Range> ranges_;
};

std::optional<uid_t> owner_of_subordinate(uid_t uid) {
  static SubordinateUids subordinates;
  return subordinates.account_of(uid);
}

// The container that holds a process of a PID namespace below ours: its outermost process, which everyone may
// see. Its root may make namespaces and control groups of its own, but no parent outside. A process that
// entered the container may make siblings (CLONE_PARENT), so their parent stands for them. 0: unknown; a user
// may nest processes without end.
std::uint64_t container_of(pid_t pid) {
  constexpr int kAncestorsMax = 32;
  constexpr std::hash<std::string> kHash;
  const auto own_depth = lineage_of("/proc/self").pids.size();
  std::string folder = proc_folder(pid);
  ProcessLineage process = folder.empty() ? ProcessLineage() : lineage_of(folder);
  for (int i = 0; i < kAncestorsMax && process.pids.size() > own_depth; ++i) {
    const std::string outer = "/proc/" + std::to_string(process.parent);
    ProcessLineage parent = lineage_of(outer);
    if (parent.pids.empty()) return 0;
    const bool is_first = process.pids[own_depth] == 1;
    if (parent.pids.size() <= own_depth) return kHash(is_first ? folder : outer);
    folder = outer;
    process = std::move(parent);
  }
  return 0;
}

constexpr uid_t kSubordinateMin = 65'536;  // no tool chooses a lower one

// A program that is set-uid to a subordinate uid runs with it outside of the namespace, too.
uid_t account_of_uid(uid_t uid) {
  return uid < kSubordinateMin ? uid : owner_of_subordinate(uid).value_or(uid);
}

// The account of the namespace below ours that holds the process, or holds one that does; nothing where the
// kernel does not let us look (it wants the right to trace the process).
std::optional<uid_t> account_of_namespace(pid_t pid) {
  constexpr int kDepthMax = 33;  // the kernel allows 32
  const std::string folder = proc_folder(pid);
  if (folder.empty()) return std::nullopt;
  OwnedFd at(raw::open((folder + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
  const std::uint64_t own = inode_of("/proc/self/ns/user");
  for (int depth = 0; at && depth < kDepthMax; ++depth) {
    OwnedFd parent(::ioctl(at.get(), NS_GET_PARENT));
    struct stat status {};
    if (!parent || ::fstat(parent.get(), &status) != 0 || status.st_ino == own) {
      uid_t owner = kUnknownAccount;
      if (::ioctl(at.get(), NS_GET_OWNER_UID, &owner) != 0 || ::fstat(at.get(), &status) != 0)
        return std::nullopt;
      return owner == ::geteuid() ? account_of_container(status.st_ino) : account_of_uid(owner);
    }
    at = std::move(parent);
  }
  return std::nullopt;
}

}  // namespace

uid_t account_of(const PeerIdentity& peer) {
  const Namespaces namespaces = own_namespaces();
  const std::uint64_t own = namespaces.user;
  // Without /proc any uid may be a subordinate one of another user.
  if (own == 0) return is_own_user(peer) ? peer.uid : kUnknownAccount;
  if (peer.namespaces.user == own) {
    const bool here = peer.namespaces.pid == namespaces.pid || is_own_user(peer);
    return here ? account_of_uid(peer.uid) : account_of_container(container_of(peer.pid));
  }
  if (const auto account = account_of_namespace(peer.pid)) return *account;
  if (const auto owner = owner_of_subordinate(peer.uid)) return *owner;
  // A user maps only itself and its subordinate uids into a namespace of its own. A process that has ended
  // may have been in a container, whose root may have every uid.
  const bool is_itself = peer.uid < kSubordinateMin && peer.uid != ::geteuid() && is_there(peer.pid);
  return is_itself ? peer.uid : kUnknownAccount;
}

bool is_root_here(const PeerIdentity& peer) {
  return peer.uid == 0 && peer.namespaces.known() && peer.namespaces == own_namespaces();
}

bool is_one_user(const PeerIdentity& a, const PeerIdentity& b) {
  if (a.uid != b.uid || !a.namespaces.known() || a.namespaces != b.namespaces) return false;
  return uid_is_unambiguous(a.uid) || (is_own_user(a) && is_own_user(b));
}

bool is_one_pod(const PeerIdentity& a, const PeerIdentity& b) {
  return is_one_user(a, b) || (trusts_pod() && is_own_user(a) && is_own_user(b));
}

}  // namespace rrdma::control
