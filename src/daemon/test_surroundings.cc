#include "daemon/test_surroundings.h"

#include <dirent.h>
#include <grp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/process_facts.h"
#include "control/names.h"
#include "daemon/slots/slot_socket.h"
#include "host/clock.h"
#include "link/udp/envelope.h"
#include "wire/udp.h"

namespace rrdma::daemon {
namespace {

constexpr int kSkipped = 77;

void write_text(const char* path, const std::string& text) {
  const OwnedFd file(raw::open(path, O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(raw::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size())) << path;
}

bool enter_namespaces() {
  if (::geteuid() == 0) return ::unshare(CLONE_NEWNET) == 0;
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1");
  write_text("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1");
  return true;
}

void bring_loopback_up() {
  const OwnedFd socket(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK | IFF_MULTICAST;
  EXPECT_EQ(::ioctl(socket.get(), SIOCSIFFLAGS, &request), 0);
}

void pause_ms(int milliseconds) {
  const timespec time{.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1'000'000L};
  (void)raw::ppoll(nullptr, 0, &time);
}

ino_t own_network() {
  struct stat status {};
  return ::stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}

// The daemon in a folder where every user may execute it: the build may be in a home that others cannot
// enter.
class DaemonForAll {
 public:
  DaemonForAll() {
    std::string folder = (std::filesystem::temp_directory_path() / "rrdma-test.XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder.data()), nullptr) << folder;
    EXPECT_EQ(::chmod(folder.c_str(), 0755), 0);
    folder_ = folder;
    path_ = folder_ / "rrdmad";
    std::filesystem::copy_file(RRDMAD_PATH, path_);
  }
  // Does not run in the processes of tests, which exit by _exit().
  ~DaemonForAll() { std::filesystem::remove_all(folder_); }
  DaemonForAll(const DaemonForAll&) = delete;
  DaemonForAll& operator=(const DaemonForAll&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path folder_, path_;
};

const std::filesystem::path& daemon_path() {
  static const DaemonForAll daemon;
  return daemon.path();
}

[[noreturn]] void end_process() {
  std::fflush(stdout);
  std::fflush(stderr);
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace

void become(uid_t uid) {
  EXPECT_EQ(::setgroups(0, nullptr), 0);
  EXPECT_EQ(::setresgid(uid, uid, uid), 0);
  EXPECT_EQ(::setresuid(uid, uid, uid), 0);
  // Changing the user makes /proc/self belong to root.
  EXPECT_EQ(::prctl(PR_SET_DUMPABLE, 1), 0);
}

void in_own_network(const std::function<void()>& body, Privilege privilege) {
  if (privilege == Privilege::kRoot && ::geteuid() != 0) GTEST_SKIP() << "needs root";
  std::fflush(stdout);
  const std::string daemon_program = daemon_path().string();
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("RRDMA_DAEMON", daemon_program.c_str(), 1);
    if (!enter_namespaces()) ::_exit(kSkipped);
    bring_loopback_up();
    if (privilege == Privilege::kNone && ::geteuid() == 0) become(kNobody);
    body();
    for (const pid_t daemon : daemons_here()) ::kill(daemon, SIGKILL);
    end_process();
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped)
    GTEST_SKIP() << "the test cannot run here: it said why, or network namespaces are not allowed";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "the process of the test ended with status " << status;
}

void skip_here(const std::string& why) {
  std::printf("%s\n", why.c_str());
  std::fflush(stdout);
  ::_exit(kSkipped);
}

Program::Program(const std::function<void()>& body) {
  std::fflush(stdout);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    end_process();
  }
}

Program::~Program() { kill(); }

void Program::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool Program::succeeded() {
  int status = 0;
  const bool ended = ::waitpid(pid_, &status, 0) == pid_;
  pid_ = -1;
  return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Baton::Baton() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  read_ = OwnedFd(ends[0]);
  write_ = OwnedFd(ends[1]);
}

void Baton::pass(std::uint64_t value) { EXPECT_EQ(raw::write(write_.get(), &value, sizeof value), 8); }

std::uint64_t Baton::take() {
  std::uint64_t value = 0;
  pollfd wait{.fd = read_.get(), .events = POLLIN, .revents = 0};
  const timespec patience{.tv_sec = 10, .tv_nsec = 0};
  EXPECT_EQ(raw::ppoll(&wait, 1, &patience), 1) << "nobody passed the baton";
  if (wait.revents != 0) {
    EXPECT_EQ(raw::read(read_.get(), &value, sizeof value), 8);
  }
  return value;
}

bool eventually(const std::function<bool()>& condition, int timeout_ms) {
  const Instant deadline = host::now() + milliseconds(timeout_ms);
  while (!condition()) {
    if (host::now() >= deadline) return false;
    pause_ms(2);
  }
  return true;
}

bool is_running(pid_t pid) {
  const auto stat = stat_of_process(pid);
  return stat && stat->state != 'Z';
}

std::vector<pid_t> daemons_here() {
  std::vector<pid_t> found;
  DIR* directory = ::opendir("/proc");
  while (directory != nullptr) {
    const dirent* entry = ::readdir(directory);
    if (entry == nullptr) break;
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0 || !is_running(pid)) continue;
    const std::string base = "/proc/" + std::to_string(pid);
    struct stat network {};
    if (::stat((base + "/ns/net").c_str(), &network) != 0 || network.st_ino != own_network()) continue;
    std::string name;
    std::getline(std::ifstream(base + "/comm"), name);
    if (name.rfind("rrdmad", 0) == 0) found.push_back(pid);
  }
  if (directory != nullptr) ::closedir(directory);
  return found;
}

pid_t start_daemon(const std::vector<std::string>& arguments, const std::string& name) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> argv = {const_cast<char*>(daemon_path().c_str())};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  const std::string where = name.empty() ? control::user_name(::geteuid()) : name;
  EXPECT_TRUE(eventually([&] { return control::connect_to(where).valid(); }))
      << "rrdmad does not listen on " << where;
  return child;
}

std::unique_ptr<control::DaemonClient> open_client(const control::DaemonSettings& settings) {
  auto client = control::DaemonClient::connect_or_start(settings);
  EXPECT_TRUE(client.ok()) << client.error().sentence;
  if (!client.ok()) end_process();
  return std::move(*client);
}

void send_to_qpn(int family, std::uint32_t qpn, std::uint8_t mark) {
  std::array<std::uint8_t, 16> datagram = {4, 0, 0xff, 0xff, 0};
  store_be24(datagram.data() + 5, qpn);
  datagram[15] = mark;
  const OwnedFd socket(raw::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(wire::kRoceUdpPort);
  v6.sin6_addr = in6addr_loopback;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(wire::kRoceUdpPort);
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* to =
      family == AF_INET ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
  EXPECT_EQ(raw::sendto(socket.get(), datagram.data(), datagram.size(), 0, to,
                        family == AF_INET ? sizeof v4 : sizeof v6),
            static_cast<ssize_t>(datagram.size()));
}

std::vector<std::uint8_t> marks_of(const OwnedFd& socket) {
  std::vector<std::uint8_t> marks;
  std::array<std::uint8_t, 16> datagram;
  while (raw::recvfrom(socket.get(), datagram.data(), datagram.size(), MSG_DONTWAIT, nullptr, nullptr) ==
         16) {
    marks.push_back(datagram[15]);
  }
  return marks;
}

std::vector<std::uint8_t> marks_relayed(const control::GrantedSlot& slot, std::size_t count) {
  std::vector<std::uint8_t> marks;
  std::array<std::uint8_t, sizeof(link::RelayHeader) + 16> datagram;
  EXPECT_TRUE(eventually([&] {
    while (raw::recvfrom(slot.relay.get(), datagram.data(), datagram.size(), MSG_DONTWAIT, nullptr,
                         nullptr) == static_cast<ssize_t>(datagram.size())) {
      EXPECT_TRUE(link::read_relay_header(datagram));
      marks.push_back(datagram.back());
    }
    return marks.size() >= count;
  })) << marks.size()
      << " came";
  return marks;
}

bool handle_until(control::DaemonClient& client, RecordedEvents& events,
                  const std::function<bool()>& condition, int timeout_ms) {
  const Instant deadline = host::now() + milliseconds(timeout_ms);
  while (!condition()) {
    if (host::now() >= deadline) return false;
    pollfd wait{.fd = client.event_fd(), .events = POLLIN, .revents = 0};
    const timespec step{.tv_sec = 0, .tv_nsec = 20'000'000};
    if (raw::ppoll(&wait, 1, &step) > 0) client.handle_events(events);
  }
  return true;
}

}  // namespace rrdma::daemon
