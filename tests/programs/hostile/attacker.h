// For the attacks on rrdmad: users, a system daemon that must survive, and a client that says what it likes.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/capture_messages.h"
#include "control/cm_messages.h"
#include "control/fault_messages.h"
#include "control/message_socket.h"
#include "control/names.h"
#include "control/process_page.h"
#include "daemon/test_surroundings.h"
#include "host/clock.h"
#include "wire/last_answer.h"

namespace rrdma::daemon {

inline constexpr uid_t kAlice = 54321;
inline constexpr uid_t kMallory = 54322;
inline const wire::Gid kHere = wire::gid_of_ipv4({127, 0, 0, 1});

inline std::uint64_t counter(control::DaemonClient& client, const std::string& name) {
  const auto status = client.status();
  if (!status.ok()) return 0;
  for (const auto& one : status->counters) {
    if (one.name == name) return one.value;
  }
  return 0;
}

constexpr int kPatienceMs = 30'000;

// A connection that says what it likes.
class RawClient {
 public:
  explicit RawClient(const std::string& name) : socket_(control::connect_to(name)) {
    EXPECT_TRUE(socket_.valid()) << name;
  }
  explicit RawClient(OwnedFd socket) : socket_(std::move(socket)) {}
  bool send(const std::vector<std::uint8_t>& datagram, std::span<const int> fds = {}) {
    return control::send_datagram(socket_.get(), datagram, fds) == control::SendOutcome::kSent;
  }
  [[nodiscard]] int socket() const { return socket_.get(); }
  // The next message; nothing when the daemon has hung up.
  std::optional<control::Received> receive() {
    // Tests of thousands of messages must not sleep for each.
    pollfd wait{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    const timespec patience{.tv_sec = kPatienceMs / 1000, .tv_nsec = 0};
    EXPECT_EQ(raw::ppoll(&wait, 1, &patience), 1);
    control::Received message;
    const auto outcome = control::receive_message(socket_.get(), message);
    EXPECT_NE(outcome, control::ReceiveOutcome::kNothing);
    if (outcome != control::ReceiveOutcome::kMessage) return std::nullopt;
    return message;
  }
  // Ends the connection, but keeps its socket and what it has not read.
  void hang_up() { EXPECT_EQ(::shutdown(socket_.get(), SHUT_RDWR), 0); }
  // Returns the number of messages that had arrived.
  std::size_t skip_all() {
    control::Received message;
    std::size_t count = 0;
    while (control::receive_message(socket_.get(), message) == control::ReceiveOutcome::kMessage) ++count;
    return count;
  }
  std::optional<control::Welcome> greet(const control::Hello& hello = {}) {
    EXPECT_TRUE(send(control::encode(hello, 1)));
    const auto reply = receive();
    return reply ? reply->as<control::Welcome>() : std::nullopt;
  }

 private:
  OwnedFd socket_;
};

// A greeted client of the system daemon.
inline std::unique_ptr<RawClient> client_of(control::Role role, int page = -1) {
  auto client = std::make_unique<RawClient>(std::string(control::kNetworkName));
  control::Hello hello;
  hello.role = role;
  hello.has_page = page >= 0;
  const int fds[] = {page};
  EXPECT_TRUE(client->send(control::encode(hello, 1), std::span(fds).first(page >= 0 ? 1 : 0)));
  EXPECT_TRUE(client->receive());
  return client;
}

// For this process, and for the daemons that it starts.
inline void limit_descriptors(rlim_t most) {
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// As many as a daemon with many clients needs; false: they are not allowed here.
inline bool allow_descriptors(rlim_t wanted) {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::max(limit.rlim_cur, wanted);
  limit.rlim_max = std::max(limit.rlim_max, wanted);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

// Skips the test if they are not allowed here.
inline void need_descriptors(rlim_t wanted) {
  if (!allow_descriptors(wanted)) skip_here("needs " + std::to_string(wanted) + " descriptors");
}

// A page whose queue pairs have just acknowledged something. The peer is the queue pair `peer` of this host.
inline control::ProcessPage page_with_answers(unsigned count, std::uint32_t peer) {
  auto page = control::ProcessPage::create();
  EXPECT_TRUE(page.ok());
  constexpr std::uint8_t kTypeRc = 2;  // ibv_qp_type
  for (unsigned i = 0; i < count; ++i) {
    control::QpRow* const row = page->create_qp();
    control::QpFields fields{
        .qpn = 0x10000 + i, .peer_qpn = peer, .type = kTypeRc, .link = control::kLinkUdp};
    fields.local_gid = fields.peer_gid = kHere;
    fields.source_port = 0xc000;
    control::ProcessPage::update_qp(*row, fields);
    wire::LastAnswer::write(row->last_answer, wire::Psn(i), i, host::now());
  }
  return std::move(*page);
}

// Orders of a tool that the daemon may refuse.
inline bool set_fault(RawClient& tool) {
  EXPECT_TRUE(tool.send(control::encode(control::SetFault{.rule = "net=drop=1%"}, 2)));
  const auto reply = tool.receive();
  return reply && reply->as<control::FaultWasSet>().has_value();
}

inline bool start_capture(RawClient& tool) {
  int ends[2];
  EXPECT_EQ(raw::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const OwnedFd near(ends[0]), far(ends[1]);
  const int fds[] = {far.get()};
  EXPECT_TRUE(tool.send(control::encode(control::StartCapture{}, 2), fds));
  const auto reply = tool.receive();
  return reply && reply->as<control::CaptureStarted>().has_value();
}

// A call from an address to port 9 of this host.
inline control::CmConnect call_from(const wire::Gid& source) {
  control::CmConnect call{.number = 1};
  call.parameters.route = {.local = source, .remote = kHere};
  call.parameters.service_id = wire::service_id_of({.port_space = wire::PortSpace::kTcp, .port = 9});
  call.parameters.ip =
      wire::IpCmHeader{.version = wire::IpVersion::kIpv4, .source = source, .destination = kHere};
  call.parameters.path_mtu = 3;
  return call;
}

// Binds ports of rdma_cm until the daemon refuses one. Returns how many it got.
inline std::uint64_t bind_all_ports(control::DaemonClient& client) {
  std::uint64_t bound = 0;
  while (bound < 30'000) {
    const control::CmBind next{.number = static_cast<std::uint32_t>(bound + 1)};
    if (!client.request<control::CmBound>(next).ok()) break;
    ++bound;
  }
  return bound;
}

struct TcpPair {
  OwnedFd near, far;
};

// A TCP socket whose close waits for `wait_s`: its peer does not read what it has sent.
inline TcpPair slow_to_close(int wait_s) {
  const OwnedFd listener(raw::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(raw::bind(listener.get(), generic, size), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(raw::getsockname(listener.get(), generic, &size), 0);
  TcpPair pair;
  pair.near = OwnedFd(raw::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(raw::connect(pair.near.get(), generic, size), 0);
  pair.far = OwnedFd(raw::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::vector<std::uint8_t> much(65536);
  while (raw::sendto(pair.near.get(), much.data(), much.size(), MSG_DONTWAIT, nullptr, 0) > 0) {
  }
  const linger wait{.l_onoff = 1, .l_linger = wait_s};
  EXPECT_EQ(raw::setsockopt(pair.near.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait), 0);
  return pair;
}

inline bool send_with(int socket, const std::vector<std::uint8_t>& datagram, const std::vector<int>& fds) {
  iovec content{const_cast<std::uint8_t*>(datagram.data()), datagram.size()};
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  return raw::sendmsg(socket, &message, MSG_NOSIGNAL) > 0;
}

// A number that another process passes after much work.
inline std::uint64_t take_patiently(Baton& full) {
  pollfd wait{.fd = full.reader(), .events = POLLIN, .revents = 0};
  const timespec patience{.tv_sec = 100, .tv_nsec = 0};
  EXPECT_EQ(raw::ppoll(&wait, 1, &patience), 1);
  return full.take();
}

// A system daemon that lives until the end of the test, and must.
class SystemDaemon {
 public:
  explicit SystemDaemon(std::vector<std::string> options = {"--system"})
      : pid_(start_daemon(options, std::string(control::kNetworkName))) {}
  ~SystemDaemon() {
    EXPECT_TRUE(is_running(pid_)) << "the daemon died of the attack";
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  SystemDaemon(const SystemDaemon&) = delete;
  SystemDaemon& operator=(const SystemDaemon&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// Runs the body as root in its own network, beside a system daemon that must survive it.
inline void beside_daemon(const std::function<void()>& body) {
  in_own_network(
      [&] {
        const SystemDaemon daemon;
        body();
      },
      Privilege::kRoot);
}

inline void as(uid_t uid, const std::function<void()>& body) {
  Program program([&] {
    become(uid);
    body();
  });
  EXPECT_TRUE(program.succeeded());
}

// A process of a user beside the test. It waits wherever its body calls `stay`, so the test finds it there
// with all that it has.
class Beside {
 public:
  using Stay = std::function<void(std::uint64_t value)>;
  using Body = std::function<void(const Stay& stay)>;
  // Returns when the body stays for the first time.
  Beside(uid_t uid, const Body& body)
      : program_([this, uid, &body] {
          become(uid);
          body([this](std::uint64_t value) {
            stays_.pass(value);
            (void)take_patiently(goes_on_);
          });
        }) {
    await();
  }
  ~Beside() {
    go_on();
    EXPECT_TRUE(program_.succeeded());
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  void go_on() { goes_on_.pass(); }
  // Until the body stays once more.
  void await() { value_ = take_patiently(stays_); }
  // The value of the last stay.
  [[nodiscard]] std::uint64_t value() const { return value_; }
  [[nodiscard]] pid_t pid() const { return program_.pid(); }

 private:
  Baton stays_, goes_on_;
  Program program_;
  std::uint64_t value_ = 0;
};

// A process in a user namespace of Mallory's, or of another user, with `count` subordinate uids.
class ManyUids : public Beside {
 public:
  static constexpr uid_t kFirst = 700'000;
  ManyUids(unsigned count, const Body& body, uid_t owner = kMallory)
      : Beside(owner, [&body](const Stay& stay) {
          ASSERT_EQ(::unshare(CLONE_NEWUSER), 0);
          stay(0);
          body(stay);
        }) {
    for (const char* map : {"uid_map", "gid_map"}) {
      std::ofstream("/proc/" + std::to_string(pid()) + "/" + map)
          << "0 " << owner << " 1\n1 " << kFirst << " " << count << "\n";
    }
    go_on();
    await();
  }
};

// Runs the body as the first process of a PID namespace of its own, as a container of the same user does.
inline void in_container(const std::function<void()>& body) {
  ASSERT_EQ(::unshare(CLONE_NEWPID), 0);
  const pid_t inside = ::fork();
  if (inside == 0) {
    body();
    std::fflush(stdout);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(inside, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace rrdma::daemon
