// One user of a system daemon against the others: descriptors that close slowly, pages that grow when they
// are read, work without end, rights that were given up, and things of which there is one for all.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "attacker.h"
#include "control/capture_messages.h"
#include "control/cm_messages.h"
#include "control/fault_messages.h"
#include "control/identity.h"
#include "control/process_page.h"
#include "daemon/disposal.h"
#include "host/clock.h"
#include "link/shm/test_silent_file.h"

namespace rrdma::daemon::system_daemon_test {

const std::string kDaemonName(control::kNetworkName);

double seconds_of(const std::function<void()>& body) {
  const Instant before = host::now();
  body();
  return static_cast<double>((host::now() - before).ns) / 1e9;
}

// ---- descriptors whose last close waits ----

struct TcpPair {
  OwnedFd near, far;
};

// A TCP socket whose close waits for `wait_s`: its peer does not read what it has sent.
TcpPair slow_to_close(int wait_s) {
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

bool send_with(int socket, const std::vector<std::uint8_t>& datagram, const std::vector<int>& fds) {
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

TEST(SystemDaemon, ADescriptorThatIsSlowToCloseDelaysNobody) {
  in_own_network(
      [] {
        const SystemDaemon daemon;
        Baton sent, finish;
        Program mallory([&] {
          become(kMallory);
          std::vector<OwnedFd> peers, connections;
          control::Hello hello;
          hello.has_page = true;
          // As the page that it is not; as one of more than a message may have; and in a message that nobody
          // reads.
          for (const std::size_t count : {1u, 40u}) {
            TcpPair pair = slow_to_close(20);
            peers.push_back(std::move(pair.far));
            connections.push_back(control::connect_to(kDaemonName));
            std::vector<int> fds(count, STDERR_FILENO);
            fds.back() = pair.near.get();
            EXPECT_TRUE(send_with(connections.back().get(), control::encode(hello, 1), fds));
          }
          TcpPair pair = slow_to_close(20);
          peers.push_back(std::move(pair.far));
          OwnedFd gone = control::connect_to(kDaemonName);
          EXPECT_TRUE(control::send_datagram(gone.get(), std::vector<std::uint8_t>(20), {}) ==
                      control::SendOutcome::kSent);
          // If the daemon has hung up already, the last close is Mallory's own, and must not wait.
          if (!send_with(gone.get(), control::encode(hello, 1), {pair.near.get()}))
            forbid_linger(pair.near.get());
          pair.near.reset();
          gone.reset();
          sent.pass();
          finish.take();
        });
        sent.take();
        as(kAlice, [] {
          const double waited = seconds_of([] {
            const auto client = open_client();
            for (int i = 0; i < 20; ++i) EXPECT_TRUE(client->status().ok());
          });
          EXPECT_LT(waited, 8) << "seconds";
        });
        finish.pass();
        EXPECT_TRUE(mallory.succeeded());
      },
      Privilege::kRoot);
}

// A file whose server never answers: even to close one of several descriptors for it waits for the server.
TEST(SystemDaemon, AFileThatNeverAnswersDelaysNobody) {
  in_own_network(
      [] {
        const SystemDaemon daemon;
        const link::SilentFile file;
        if (!file.works()) return (void)(std::cout << "needs FUSE\n");
        Baton sent, finish;
        Program mallory([&] {
          const OwnedFd silent(file.open());
          ASSERT_TRUE(silent.valid());
          become(kMallory);
          control::Hello hello, tool;
          hello.has_page = true;
          tool.role = control::Role::kTool;
          // As a page, as the socket of a capture, and in a message that takes none.
          const OwnedFd program = control::connect_to(kDaemonName);
          EXPECT_TRUE(send_with(program.get(), control::encode(hello, 1), {silent.get()}));
          RawClient capture(kDaemonName);
          EXPECT_TRUE(capture.greet(tool));
          const int fds[] = {silent.get()};
          EXPECT_TRUE(capture.send(control::encode(control::StartCapture{}, 2), fds));
          EXPECT_TRUE(capture.send(control::encode(control::QueryStatus{}, 3), fds));
          sent.pass();
          finish.take();
        });
        sent.take();
        as(kAlice, [] {
          const auto client = open_client();
          for (int i = 0; i < 20; ++i) EXPECT_TRUE(client->status().ok());
        });
        finish.pass();
        file.end();
        EXPECT_TRUE(mallory.succeeded());
      },
      Privilege::kRoot);
}

// ---- pages ----

// A sealed page of a program, of which nothing is written but its head: so many rows of QPs, and so many
// devices.
OwnedFd page_with(std::uint32_t qp_rows, std::uint32_t devices) {
  const auto model = control::ProcessPage::create();
  EXPECT_TRUE(model.ok());
  struct stat status {};
  EXPECT_EQ(::fstat(model->fd(), &status), 0);
  OwnedFd page(raw::memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(raw::ftruncate(page.get(), status.st_size), 0);
  control::PageHeaderCopy header;
  EXPECT_EQ(::pread(model->fd(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  header.qp_rows_used = qp_rows;
  header.devices_used = devices;
  header.counters_used = control::kPagePartCapacity;
  header.parts_used = control::kPagePartCapacity;
  EXPECT_EQ(::pwrite(page.get(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  EXPECT_EQ(raw::fcntl(page.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  return page;
}

TEST(SystemDaemon, ReadingAPageTakesNoMemory) {
  in_own_network(
      [] {
        const SystemDaemon daemon;
        as(kMallory, [] {
          const OwnedFd page = page_with(control::kPageQpCapacity, control::kPageDeviceCapacity);
          const auto watcher = open_client();
          {
            RawClient mallory{kDaemonName};
            control::Hello hello;
            hello.has_page = true;
            const int fds[] = {page.get()};
            ASSERT_TRUE(mallory.send(control::encode(hello, 1), fds));
            ASSERT_TRUE(mallory.receive());
            ASSERT_TRUE(mallory.send(control::encode(control::ListDevices{}, 2)));
            ASSERT_TRUE(mallory.receive());
          }
          EXPECT_TRUE(eventually([&] { return watcher->status()->clients == 1; }));
          struct stat status {};
          ASSERT_EQ(::fstat(page.get(), &status), 0);
          EXPECT_LT(status.st_blocks * 512, 64 * 1024) << "octets of the page came to be when it was read";
        });
      },
      Privilege::kRoot);
}

TEST(SystemDaemon, QuestionsOfOneUserDoNotDelayTheOthers) {
  in_own_network(
      [] {
        const SystemDaemon daemon;
        constexpr int kPrograms = 250;
        Baton asked, finish;
        Program mallory([&] {
          become(kMallory);
          const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
          (void)::setrlimit(RLIMIT_NOFILE, &limit);
          const OwnedFd page = page_with(0, control::kPageDeviceCapacity);
          const int fds[] = {page.get()};
          std::vector<std::unique_ptr<RawClient>> programs;
          control::Hello hello;
          hello.has_page = true;
          for (int i = 0; i < kPrograms; ++i) {
            programs.push_back(std::make_unique<RawClient>(kDaemonName));
            ASSERT_TRUE(programs.back()->send(control::encode(hello, 1), fds));
            ASSERT_TRUE(programs.back()->receive());
          }
          for (const auto& program : programs) {
            for (std::uint32_t i = 0; i < 8; ++i)
              (void)program->send(control::encode(control::ListDevices{}, 2 + i));
          }
          asked.pass();
          finish.take();
        });
        asked.take();
        as(kAlice, [] {
          double longest = 0;
          for (int i = 0; i < 10; ++i) {
            longest = std::max(longest, seconds_of([] { EXPECT_TRUE(open_client()->request_slot().ok()); }));
          }
          EXPECT_LT(longest, 1.0) << "seconds";
          std::cout << "the longest of 10 took " << longest << " s\n";
        });
        finish.pass();
        EXPECT_TRUE(mallory.succeeded());
      },
      Privilege::kRoot);
}

// ---- rights ----

// A program of Alice's that runs until the baton comes.
void run_alice(Baton& ready, Baton& finish) {
  become(kAlice);
  RawClient alice{kDaemonName};
  ASSERT_TRUE(alice.greet());
  ASSERT_TRUE(alice.send(control::encode(control::RequestSlot{}, 2)));
  ASSERT_TRUE(alice.receive());
  ready.pass();
  finish.take();
  // No one asked it to record anything.
  ASSERT_TRUE(alice.send(control::encode(control::QueryStatus{}, 3)));
  const auto next = alice.receive();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->type(), control::MessageType::kStatus);
}

TEST(SystemDaemon, WhoIsNoLongerRootHasNoRightsOfRoot) {
  in_own_network(
      [] {
        const SystemDaemon daemon;
        Baton ready, finish;
        Program alice([&] { run_alice(ready, finish); });
        ready.take();
        for (const control::Role role : {control::Role::kProgram, control::Role::kTool}) {
          Program server([&] {
            RawClient mallory{kDaemonName};
            control::Hello hello;
            hello.role = role;
            ASSERT_TRUE(mallory.greet(hello));
            become(kMallory);
            int ends[2];
            ASSERT_EQ(raw::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
            const OwnedFd near(ends[0]), far(ends[1]);
            const int fds[] = {far.get()};
            ASSERT_TRUE(mallory.send(control::encode(control::StartCapture{}, 2), fds));
            const auto reply = mallory.receive();
            ASSERT_TRUE(reply);
            if (const auto started = reply->as<control::CaptureStarted>()) {
              EXPECT_EQ(started->programs, 0u);
            }
            ASSERT_TRUE(mallory.send(control::encode(control::ListProcesses{}, 3)));
            auto listed = mallory.receive();
            while (listed && listed->header.serial == 3 && listed->type() != control::MessageType::kDone) {
              EXPECT_NE(listed->as<control::ProcessEntry>()->uid, kAlice);
              listed = mallory.receive();
            }
          });
          EXPECT_TRUE(server.succeeded());
        }
        finish.pass();
        EXPECT_TRUE(alice.succeeded());
      },
      Privilege::kRoot);
}

// A call in the name of another's queue pair, or of another host, makes its peer doubt the connection that
// stands.
TEST(SystemDaemon, NobodyCallsInAnothersName) {
  in_own_network(
      [] {
        const SystemDaemon daemon;
        Baton ready, finish;
        Program alice([&] {
          become(kAlice);
          const auto client = open_client();
          ready.pass(client->request_slot()->slot);
          finish.take();
        });
        const auto foreign = static_cast<control::Slot>(ready.take());
        as(kMallory, [&] {
          const auto client = open_client();
          const auto own = client->request_slot();
          ASSERT_TRUE(own.ok());
          const wire::Gid here = wire::gid_of_ipv4({127, 0, 0, 1});
          const auto call = [&](control::Slot slot, const wire::Gid& from) {
            control::CmConnect wanted{.number = 1};
            wanted.parameters.route = {.local = from, .remote = here};
            wanted.parameters.service_id =
                wire::service_id_of({.port_space = wire::PortSpace::kTcp, .port = 9});
            wanted.parameters.ip =
                wire::IpCmHeader{.version = wire::IpVersion::kIpv4, .source = from, .destination = here};
            wanted.parameters.path_mtu = 3;
            wanted.parameters.qpn = wire::Qpn(control::qpns_of(slot).first + 5);
            const auto started = client->request<control::CmStarted>(wanted);
            return started.ok() ? 0 : started.error().error;
          };
          EXPECT_EQ(call(own->slot, here), 0);
          EXPECT_EQ(call(foreign, here), EPERM);
          EXPECT_EQ(call(own->slot, wire::gid_of_ipv4({10, 9, 8, 7})), EADDRNOTAVAIL);
        });
        finish.pass();
        EXPECT_TRUE(alice.succeeded());
      },
      Privilege::kRoot);
}

// ---- things of which all users need some ----

TEST(SystemDaemon, OneUserDoesNotTakeAllPorts) {
  in_own_network(
      [] {
        const SystemDaemon daemon;
        Baton full, finish;
        Program mallory([&] {
          become(kMallory);
          const auto client = open_client();
          full.pass(bind_all_ports(*client));
          finish.take();
        });
        EXPECT_LT(take_patiently(full), 28'232u);
        as(kAlice,
           [] { EXPECT_TRUE(open_client()->request<control::CmBound>(control::CmBind{.number = 1}).ok()); });
        finish.pass();
        EXPECT_TRUE(mallory.succeeded());
      },
      Privilege::kRoot);
}

TEST(SystemDaemon, CapturesAndFaultsOfOneUserLeaveTheOthersTheirs) {
  in_own_network(
      [] {
        const SystemDaemon daemon;
        control::Hello hello;
        hello.role = control::Role::kTool;
        Baton ready, finish;
        Program mallory([&] {
          become(kMallory);
          RawClient tool{kDaemonName};
          ASSERT_TRUE(tool.greet(hello));
          EXPECT_TRUE(start_capture(tool));
          std::uint32_t set = 0;
          while (set < 100 && set_fault(tool)) ++set;
          EXPECT_GT(set, 10u);
          ready.pass();
          finish.take();
        });
        ready.take();
        for (const uid_t uid : {kAlice, uid_t{0}}) {
          as(uid, [&] {
            RawClient tool{kDaemonName};
            ASSERT_TRUE(tool.greet(hello));
            EXPECT_TRUE(start_capture(tool)) << uid;
            EXPECT_TRUE(set_fault(tool)) << uid;
          });
        }
        finish.pass();
        EXPECT_TRUE(mallory.succeeded());
      },
      Privilege::kRoot);
}

// A user with subordinate uids has thousands of them; all are charged to it.
TEST(SystemDaemon, UsersOfANamespaceAreChargedToItsOwner) {
  in_own_network(
      [] {
        constexpr uid_t kSubordinate = 700'000;
        Baton unshared, mapped, changed, finish;
        Program inside([&] {
          become(kMallory);
          ASSERT_EQ(::unshare(CLONE_NEWUSER), 0);
          unshared.pass();
          mapped.take();
          ASSERT_EQ(::setresuid(5, 5, 5), 0);
          changed.pass();
          finish.take();
        });
        unshared.take();
        {
          std::ofstream map("/proc/" + std::to_string(inside.pid()) + "/uid_map");
          map << "0 " << kMallory << " 1\n1 " << kSubordinate << " 100\n";
        }
        mapped.pass();
        changed.take();
        control::PeerIdentity peer{.pid = inside.pid(), .uid = kSubordinate + 4, .namespaces = {}};
        peer.namespaces = control::namespaces_of(inside.pid());
        EXPECT_EQ(control::account_of(peer), kMallory);
        finish.pass();
        EXPECT_TRUE(inside.succeeded());
      },
      Privilege::kRoot);
}

// ---- texts and numbers ----

TEST(SystemDaemon, NamesOfProgramsMoveNoCursor) {
  in_own_network(
      [] {
        const SystemDaemon daemon;
        Baton ready, finish;
        Program mallory([&] {
          become(kMallory);
          RawClient client{kDaemonName};
          control::Hello hello;
          hello.program = "evil\x1b[2J\nroot: all is well";
          hello.devices =
              "\xc2\x9b"
              "2J";
          ASSERT_TRUE(client.greet(hello));
          ready.pass();
          finish.take();
        });
        ready.take();
        RawClient root{kDaemonName};
        control::Hello hello;
        hello.role = control::Role::kTool;
        ASSERT_TRUE(root.greet(hello));
        ASSERT_TRUE(root.send(control::encode(control::ListProcesses{}, 2)));
        const auto entry = root.receive();
        ASSERT_TRUE(entry && entry->as<control::ProcessEntry>());
        const std::string body(entry->body.begin(), entry->body.end());
        EXPECT_NE(body.find("evil"), std::string::npos);
        EXPECT_EQ(body.find("\x1b["), std::string::npos);
        EXPECT_EQ(body.find("\nroot"), std::string::npos);
        EXPECT_EQ(body.find("\xc2\x9b"), std::string::npos);
        finish.pass();
        EXPECT_TRUE(mallory.succeeded());
      },
      Privilege::kRoot);
}

// The daemon lives in a PID namespace that does not show the process of the program: its pid is 0 there.
TEST(SystemDaemon, AnInvisibleProgramTakesNoRulesAlong) {
  in_own_network(
      [] {
        Baton ready, gone, finish;
        Program container([&] {
          ASSERT_EQ(::unshare(CLONE_NEWPID), 0);
          const pid_t inside = ::fork();
          if (inside != 0) {
            int status = 0;
            ::waitpid(inside, &status, 0);
            EXPECT_EQ(status, 0);
            return;
          }
          {
            const SystemDaemon daemon;
            RawClient tool{kDaemonName};
            control::Hello hello;
            hello.role = control::Role::kTool;
            EXPECT_TRUE(tool.greet(hello));
            EXPECT_TRUE(tool.send(control::encode(control::SetFault{.rule = "net=drop=1%"}, 2)));
            const auto set = tool.receive();
            EXPECT_TRUE(set && set->as<control::FaultWasSet>());
            ready.pass();
            gone.take();
            EXPECT_TRUE(tool.send(control::encode(control::ListFaults{}, 3)));
            const auto listed = tool.receive();
            const auto faults = listed ? listed->as<control::FaultList>() : std::nullopt;
            EXPECT_TRUE(faults && faults->rules.size() == 1);
          }
          ::_exit(::testing::Test::HasFailure() ? 1 : 0);
        });
        ready.take();
        as(kMallory, [] {
          const auto watcher = open_client();
          EXPECT_TRUE(RawClient{kDaemonName}.greet());
          EXPECT_TRUE(eventually([&] { return watcher->status()->clients <= 2; }));
        });
        const timespec moment{.tv_sec = 0, .tv_nsec = 300'000'000};
        (void)raw::ppoll(nullptr, 0, &moment);
        gone.pass();
        EXPECT_TRUE(container.succeeded());
      },
      Privilege::kRoot);
}

}  // namespace rrdma::daemon::system_daemon_test
