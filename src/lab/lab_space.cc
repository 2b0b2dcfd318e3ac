#include "lab/lab_space.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/format.h"
#include "base/owned_fd.h"
#include "base/raw_syscall.h"
#include "control/identity.h"
#include "control/names.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

constexpr const char* kHint =
    "a container or the system may forbid user namespaces: kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces; in Docker: --security-opt "
    "seccomp=unconfined";
constexpr int kPatienceMs = 5000;  // for an answer at the door
constexpr const char* kFolder = "/mnt/rrdma-lab";
constexpr const char* kForward[] = {"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding",
                                    "/proc/sys/net/ipv4/fib_multipath_hash_policy",
                                    "/proc/sys/net/ipv6/fib_multipath_hash_policy"};

Failure<LabProblem> problem(const std::string& step, const char* hint = "") {
  return Failure{LabProblem{formatted("no lab: {}: {}", step, std::strerror(errno)), hint}};
}

std::string file_in_lab(const char* name) { return formatted("{}/{}", kFolder, name); }

bool write_file(const std::string& path, const std::string& text) {
  const OwnedFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// ---- the door: a socket through which other processes find the lab ----

// Sends the pid of process 1 to each caller of the same user. The caller's uid is translated to the lab's
// user namespace, which maps this one user only.
void answer(const OwnedFd& listener, pid_t first) {
  const OwnedFd caller(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ucred who{};
  socklen_t size = sizeof who;
  if (!caller || ::getsockopt(caller.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return;
  if (who.uid == ::geteuid()) (void)::send(caller.get(), &first, sizeof first, MSG_NOSIGNAL);
}

// The pid of process 1 of this user's lab, from a process of this user; 0 if there is no lab.
pid_t ask_for_first() {
  for (const std::string& path : control::lab_paths(::geteuid())) {
    const OwnedFd socket = control::connect_to(path);
    if (!socket || !control::is_own_user(control::peer_identity(socket.get()))) continue;
    pollfd answered{socket.get(), POLLIN, 0};
    pid_t first = 0;
    if (::poll(&answered, 1, kPatienceMs) > 0 &&
        ::recv(socket.get(), &first, sizeof first, 0) == sizeof first && first > 0)
      return first;
  }
  return 0;
}

ino_t inode_of(const OwnedFd& file) {
  struct stat status {};
  return file && ::fstat(file.get(), &status) == 0 ? status.st_ino : 0;
}

// Whether this user created the user namespace. A pid may be wrong, or belong to another process by now.
bool is_own_user_namespace(const OwnedFd& space) {
  uid_t owner = 0;
  return space && ::ioctl(space.get(), NS_GET_OWNER_UID, &owner) == 0 && owner == ::geteuid();
}

// Whether a namespace of another kind belongs to the user namespace with that inode.
bool belongs_to(const OwnedFd& space, ino_t user_namespace) {
  if (!space || user_namespace == 0) return false;
  const OwnedFd owner(::ioctl(space.get(), NS_GET_USERNS));
  return inode_of(owner) == user_namespace;
}

OwnedFd namespace_of(const std::string& process, const char* kind) {
  return OwnedFd(::open(formatted("/proc/{}/ns/{}", process, kind).c_str(), O_RDONLY | O_CLOEXEC));
}

// ---- inside ----

bool map_user(uid_t uid, gid_t gid) {
  (void)write_file("/proc/self/setgroups", "deny");
  return write_file("/proc/self/uid_map", formatted("0 {} 1", uid)) &&
         write_file("/proc/self/gid_map", formatted("0 {} 1", gid));
}

// Starts an idle process that holds the namespaces of its node.
pid_t hold_node(const LabNode& node) {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return -1;
  const OwnedFd reader(ready[0]);
  OwnedFd writer(ready[1]);
  const pid_t child = ::fork();
  if (child != 0) {
    writer.reset();
    char octet = 0;
    return child > 0 && ::read(reader.get(), &octet, 1) == 1 ? child : -1;
  }
  if (::unshare(CLONE_NEWNET | CLONE_NEWUTS) != 0 || ::sethostname(node.name.data(), node.name.size()) != 0)
    ::_exit(1);
  for (const char* setting : kForward) {
    if (!node.is_host || std::strstr(setting, "hash") != nullptr) (void)write_file(setting, "1");
  }
  (void)::prctl(PR_SET_NAME, node.name.c_str());
  const char octet = 1;
  if (::write(writer.get(), &octet, 1) != 1) ::_exit(1);
  for (int fd = 0; fd < 3; ++fd) ::close(fd);
  for (;;) ::pause();
}

// Servers that bind to any IPv4 address, such as rping, must be found by the name of their host, so IPv4
// comes first. glibc sorts addresses by this table; without it, it prefers IPv6.
constexpr std::string_view kAddressOrder =
    "precedence ::1/128 50\nprecedence ::ffff:0:0/96 45\nprecedence ::/0 40\n";

std::string names_of_hosts(const Topology& topology, bool ipv6_too) {
  std::string text = "127.0.0.1 localhost\n::1 localhost\n";
  for (std::size_t node = 0; node < topology.nodes.size(); ++node) {
    for (const bool ipv6 : {false, true}) {
      if (ipv6 && !ipv6_too) continue;
      const std::string address = host_address(topology, node, ipv6);
      if (topology.nodes[node].is_host && !address.empty())
        text += address + " " + topology.nodes[node].name + "\n";
    }
  }
  return text;
}

bool make_mounts(const Topology& topology) {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  if (::mount("proc", "/proc", "proc", 0, nullptr) != 0) return false;
  if (::mount("rrdma-lab", "/mnt", "tmpfs", 0, "mode=0755") != 0) return false;
  if (::mkdir(kFolder, 0755) != 0 || ::mkdir(file_in_lab("run").c_str(), 0700) != 0) return false;
  // A system without that file keeps IPv4 first by having no other addresses.
  const bool ordered =
      write_file(file_in_lab("gai.conf"), std::string(kAddressOrder)) &&
      ::mount(file_in_lab("gai.conf").c_str(), "/etc/gai.conf", nullptr, MS_BIND, nullptr) == 0;
  if (!write_file(file_in_lab("hosts"), names_of_hosts(topology, ordered))) return false;
  return ::mount(file_in_lab("hosts").c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
}

void keep_state(const LabState& state) {
  (void)write_file(file_in_lab("topology"), emit_topology(state.topology));
  std::string text;
  for (const pid_t pid : state.holders) text += formatted("{} ", pid);
  (void)write_file(file_in_lab("holders"), text);
  (void)write_file(file_in_lab("links"), state.links_by_faults ? "faults" : "kernel");
  keep_cuts(state);
}

// Keeps explain logs, daemon sockets and similar files inside the lab; they are removed with it.
void set_surroundings() {
  ::setenv("XDG_RUNTIME_DIR", file_in_lab("run").c_str(), 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
}

// The properties of the links that the kernel implements.
Topology kernel_part(const LabState& state) {
  Topology topology = state.topology;
  for (LabLink& link : topology.links) {
    if (!state.links_by_faults) break;
    link.shape.delay = {};
    link.shape.loss_ppm = 0;
    link.shape.ecn = false;
  }
  return topology;
}

int begin(const Topology& topology, const std::function<int(const LabState&)>& inside) {
  const auto give_up = [](const std::string& sentence) { return complain("rrdma lab", sentence, ""); };
  if (!make_mounts(topology))
    return give_up(formatted("the lab's mounts cannot be made: {}", std::strerror(errno)));
  set_surroundings();
  LabState state{.topology = topology};
  state.links_by_faults = std::any_of(topology.links.begin(), topology.links.end(),
                                      [](const LabLink& link) { return link.shape.needs_netem(); }) &&
                          !has_netem();
  if (state.links_by_faults) {
    std::fputs(
        "rrdma lab: this kernel has no netem (CONFIG_NET_SCH_NETEM): delay, loss and ecn of links befall "
        "what queue pairs send (as rrdma fault does it), and nothing else\n",
        stderr);
  }
  for (const LabNode& node : topology.nodes) {
    state.holders.push_back(hold_node(node));
    if (state.holders.back() < 0) return give_up("there is no namespace for " + node.name);
  }
  if (auto built = build_network(kernel_part(state), state.holders); !built) return give_up(built.error());
  keep_state(state);
  return inside(state);
}

// Whether the caller is in a lab: the files are in a tmpfs of this user, not in another file system mounted
// at /mnt.
bool is_inside() {
  struct statfs system {};
  struct stat status {};
  return ::statfs(kFolder, &system) == 0 && system.f_type == TMPFS_MAGIC && ::lstat(kFolder, &status) == 0 &&
         S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() && (status.st_mode & 022) == 0 &&
         ::access(file_in_lab("holders").c_str(), R_OK) == 0;
}

Result<LabState, LabProblem> read_state() {
  LabState state{.topology = parse_topology(read_file(file_in_lab("topology")))};
  std::istringstream holders(read_file(file_in_lab("holders"))), cuts(read_file(file_in_lab("cuts")));
  state.links_by_faults = read_file(file_in_lab("links")) == "faults";
  for (pid_t pid; holders >> pid;) state.holders.push_back(pid);
  for (std::size_t link; cuts >> link;) state.cut.insert(link);
  const std::size_t nodes = state.topology.nodes.size();
  const bool fits = state.holders.size() == nodes &&
                    (state.cut.empty() || *state.cut.rbegin() < state.topology.links.size());
  if (!fits)
    return Failure{LabProblem{"the lab's own files do not fit together", "end the lab and start it again"}};
  return state;
}

// Reaps orphans, as process 1 must, until `child` has ended.
int wait_for(pid_t child) {
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) return 1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result<int, LabProblem> run_lab(const Topology& topology, const std::function<int(const LabState&)>& inside) {
  const auto door = control::hold_lab_paths();
  if (!door)
    return Failure{LabProblem{"there is a lab of this user already",
                              "`rrdma lab show` shows it, `rrdma lab down` ends it"}};
  if (door->listeners.empty())
    return Failure{LabProblem{"no lab: there is no folder of this user's alone for its socket",
                              formatted("make /tmp/rrdma-{0}, owned by uid {0}, mode 0700", ::geteuid())}};
  const pid_t outside = ::getpid();
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  const pid_t maker = ::fork();  // creates the namespaces; this process stays outside, with the door
  if (maker < 0) return problem("fork");
  if (maker == 0) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != outside) ::_exit(1);
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS) != 0 ||
        !map_user(uid, gid))
      ::_exit(complain("rrdma lab", formatted("no lab: namespaces: {}", std::strerror(errno)), kHint));
    const pid_t first = ::fork();
    if (first == 0) {
      (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const pid_t body = ::fork();
      if (body == 0) ::_exit(begin(topology, inside));
      ::_exit(body < 0 ? 1 : wait_for(body));
    }
    (void)::signal(SIGINT, SIG_IGN);
    // Answer callers with the pid of process 1 as seen from outside.
    (void)::signal(SIGPIPE, SIG_IGN);
    for (;;) {
      for (const OwnedFd& listener : door->listeners) {
        pollfd callers{listener.get(), POLLIN, 0};
        if (::poll(&callers, 1, 25) > 0) answer(listener, first);
      }
      int status = 0;
      if (::waitpid(first, &status, WNOHANG) != first) continue;
      // SIGKILL: end_lab().
      const bool ended = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : ended ? 0 : 1);
    }
  }
  (void)::signal(SIGINT, SIG_IGN);
  int status = 0;
  while (::waitpid(maker, &status, 0) < 0 && errno == EINTR) {
  }
  for (const std::string& path : door->paths) (void)::unlink(path.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

Result<LabState, LabProblem> join_lab() {
  if (is_inside()) return read_state();
  const pid_t first = ask_for_first();
  if (first == 0)
    return Failure{LabProblem{"this user has no lab", "start one in another terminal: rrdma lab leaf-spine"}};
  std::vector<OwnedFd> spaces;
  const std::pair<const char*, int> kinds[] = {
      {"user", CLONE_NEWUSER}, {"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET}, {"mnt", CLONE_NEWNS}};
  for (const auto& [kind, flag] : kinds) spaces.push_back(namespace_of(std::to_string(first), kind));
  for (std::size_t i = 0; i < std::size(kinds); ++i) {
    if (!(i == 0 ? is_own_user_namespace(spaces[i]) : belongs_to(spaces[i], inode_of(spaces[0]))))
      return Failure{LabProblem{formatted("process {} is no lab of this user's", first), ""}};
  }
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  for (std::size_t i = 0; i < std::size(kinds); ++i) {
    if (::setns(spaces[i].get(), kinds[i].second) != 0)
      return problem(formatted("its {} namespace", kinds[i].first));
  }
  // To enter a mount namespace is to stand in its root.
  std::filesystem::current_path(folder, error);
  set_surroundings();
  return read_state();
}

Result<void, LabProblem> end_lab() {
  if (is_inside())
    return Failure{
        LabProblem{"this program is inside the lab", "leave its shell, and end the lab from outside"}};
  const pid_t first = ask_for_first();
  if (first == 0) return Failure{LabProblem{"this user has no lab", ""}};
  // The descriptor names the process even if its pid is reused.
  const OwnedFd process(raw::pidfd_open(first, 0));
  if (!process || !is_own_user_namespace(namespace_of(std::to_string(first), "user")))
    return Failure{LabProblem{formatted("process {} is no lab of this user's", first), ""}};
  if (::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) != 0) return problem("its end");
  pollfd ended{process.get(), POLLIN, 0};
  (void)::poll(&ended, 1, kPatienceMs);
  while (ask_for_first() != 0) ::usleep(10'000);
  return {};
}

bool enter_node(const LabState& state, std::size_t node) {
  const OwnedFd own = namespace_of("self", "user");
  for (const auto& [kind, flag] : {std::pair{"net", CLONE_NEWNET}, std::pair{"uts", CLONE_NEWUTS}}) {
    const OwnedFd space = namespace_of(std::to_string(state.holders[node]), kind);
    if (!belongs_to(space, inode_of(own)) || ::setns(space.get(), flag) != 0) return false;
  }
  return true;
}

void keep_cuts(const LabState& state) {
  std::string text;
  for (const std::size_t link : state.cut) text += formatted("{} ", link);
  (void)write_file(file_in_lab("cuts"), text);
}

}  // namespace rrdma::tools
