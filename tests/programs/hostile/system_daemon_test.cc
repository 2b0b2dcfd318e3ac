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
#include "daemon/client.h"
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

// Alice is served as if nobody else were there.
void expect_answers() {
  as(kAlice, [] {
    const auto client = open_client();
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(client->status().ok());
  });
}

TEST(SystemDaemon, ADescriptorThatIsSlowToCloseDelaysNobody) {
  beside_daemon([] {
    const Beside mallory(kMallory, [](const Beside::Stay& stay) {
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
      stay(0);
    });
    EXPECT_LT(seconds_of(expect_answers), 8) << "seconds";
  });
}

// A file whose server never answers: even to close one of several descriptors for it waits for the server.
TEST(SystemDaemon, AFileThatNeverAnswersDelaysNobody) {
  beside_daemon([] {
    const link::SilentFile file;
    if (!file.works()) return (void)(std::cout << "needs FUSE\n");
    const Beside mallory(0, [&](const Beside::Stay& stay) {
      const OwnedFd silent(file.open());
      ASSERT_TRUE(silent.valid());
      become(kMallory);
      control::Hello hello;
      hello.has_page = true;
      // As a page, as the socket of a capture, and in a message that takes none.
      const OwnedFd program = control::connect_to(kDaemonName);
      EXPECT_TRUE(send_with(program.get(), control::encode(hello, 1), {silent.get()}));
      const auto capture = client_of(control::Role::kTool);
      const int fds[] = {silent.get()};
      EXPECT_TRUE(capture->send(control::encode(control::StartCapture{}, 2), fds));
      EXPECT_TRUE(capture->send(control::encode(control::QueryStatus{}, 3), fds));
      stay(0);
    });
    expect_answers();
    file.end();
  });
}

// Connections that the daemon turns away wait behind it to be closed.
TEST(SystemDaemon, ConnectionsThatNobodyCanCloseLeaveTheOthersDescriptors) {
  in_own_network(
      [] {
        const link::SilentFile file;
        if (!file.works()) return (void)(std::cout << "needs FUSE\n");
        limit_descriptors(4096);
        const SystemDaemon daemon;
        const Beside mallory(0, [&](const Beside::Stay& stay) {
          const OwnedFd silent(file.open());
          become(kMallory);
          EXPECT_TRUE(send_with(client_of(control::Role::kTool)->socket(),
                                control::encode(control::QueryStatus{}, 2), {silent.get()}));
          control::Hello hello;
          hello.has_page = true;
          for (int made = 0; made < 6000;) {
            const OwnedFd connection = control::connect_to(kDaemonName);
            if (!connection) continue;  // the daemon is busy
            ++made;
            (void)send_with(connection.get(), control::encode(hello, 1), {STDERR_FILENO});
          }
          stay(0);
        });
        as(kAlice, [] { EXPECT_TRUE(open_client()->request_slot().ok()); });
        file.end();
      },
      Privilege::kRoot);
}

// A connection may be older than the change of its user.
TEST(SystemDaemon, WhoIsNoLongerRootKeepsNoSockets) {
  beside_daemon([] {
    Program server([] {
      RawClient client{kDaemonName};
      become(kMallory);
      control::Hello hello;
      hello.role = control::Role::kKeeper;
      EXPECT_FALSE(client.greet(hello));
    });
    EXPECT_TRUE(server.succeeded());
  });
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
  beside_daemon([] {
    as(kMallory, [] {
      const OwnedFd page = page_with(control::kPageQpCapacity, control::kPageDeviceCapacity);
      const auto watcher = open_client();
      {
        const auto mallory = client_of(control::Role::kProgram, page.get());
        ASSERT_TRUE(mallory->send(control::encode(control::ListDevices{}, 2)));
        ASSERT_TRUE(mallory->receive());
      }
      EXPECT_TRUE(eventually([&] { return watcher->status()->clients == 1; }));
      struct stat status {};
      ASSERT_EQ(::fstat(page.get(), &status), 0);
      EXPECT_LT(status.st_blocks * 512, 64 * 1024) << "octets of the page came to be when it was read";
    });
  });
}

TEST(SystemDaemon, QuestionsOfOneUserDoNotDelayTheOthers) {
  beside_daemon([] {
    constexpr int kPrograms = 250;
    const Beside mallory(kMallory, [](const Beside::Stay& stay) {
      (void)allow_descriptors(4096);
      const OwnedFd page = page_with(0, control::kPageDeviceCapacity);
      std::vector<std::unique_ptr<RawClient>> programs;
      for (int i = 0; i < kPrograms; ++i) programs.push_back(client_of(control::Role::kProgram, page.get()));
      for (const auto& program : programs) {
        for (std::uint32_t i = 0; i < 8; ++i)
          (void)program->send(control::encode(control::ListDevices{}, 2 + i));
      }
      stay(0);
    });
    as(kAlice, [] {
      double longest = 0;
      for (int i = 0; i < 10; ++i) {
        longest = std::max(longest, seconds_of([] { EXPECT_TRUE(open_client()->request_slot().ok()); }));
      }
      EXPECT_LT(longest, 1.0) << "seconds";
      std::cout << "the longest of 10 took " << longest << " s\n";
    });
  });
}

// ---- rights ----

TEST(SystemDaemon, WhoIsNoLongerRootHasNoRightsOfRoot) {
  beside_daemon([] {
    const Beside alice(kAlice, [](const Beside::Stay& stay) {
      const auto program = client_of(control::Role::kProgram);
      ASSERT_TRUE(program->send(control::encode(control::RequestSlot{}, 2)));
      ASSERT_TRUE(program->receive());
      stay(0);
      // No one asked it to record anything.
      ASSERT_TRUE(program->send(control::encode(control::QueryStatus{}, 3)));
      const auto next = program->receive();
      ASSERT_TRUE(next);
      EXPECT_EQ(next->type(), control::MessageType::kStatus);
    });
    for (const control::Role role : {control::Role::kProgram, control::Role::kTool}) {
      Program server([&] {
        const auto mallory = client_of(role);
        become(kMallory);
        int ends[2];
        ASSERT_EQ(raw::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        const OwnedFd near(ends[0]), far(ends[1]);
        const int fds[] = {far.get()};
        ASSERT_TRUE(mallory->send(control::encode(control::StartCapture{}, 2), fds));
        const auto reply = mallory->receive();
        ASSERT_TRUE(reply);
        if (const auto started = reply->as<control::CaptureStarted>()) {
          EXPECT_EQ(started->programs, 0u);
        }
        ASSERT_TRUE(mallory->send(control::encode(control::ListProcesses{}, 3)));
        auto listed = mallory->receive();
        while (listed && listed->header.serial == 3 && listed->type() != control::MessageType::kDone) {
          EXPECT_NE(listed->as<control::ProcessEntry>()->uid, kAlice);
          listed = mallory->receive();
        }
      });
      EXPECT_TRUE(server.succeeded());
    }
  });
}

// A call in the name of another's queue pair, or of another host, makes its peer doubt the connection that
// stands.
TEST(SystemDaemon, NobodyCallsInAnothersName) {
  beside_daemon([] {
    const Beside alice(kAlice, [](const Beside::Stay& stay) {
      const auto client = open_client();
      stay(client->request_slot()->slot);
    });
    const auto foreign = static_cast<control::Slot>(alice.value());
    as(kMallory, [&] {
      const auto client = open_client();
      const auto own = client->request_slot();
      ASSERT_TRUE(own.ok());
      const auto call = [&](control::Slot slot, const wire::Gid& from) {
        control::CmConnect wanted = call_from(from);
        wanted.parameters.qpn = wire::Qpn(control::qpns_of(slot).first + 5);
        const auto started = client->request<control::CmStarted>(wanted);
        return started.ok() ? 0 : started.error().error;
      };
      EXPECT_EQ(call(own->slot, kHere), 0);
      EXPECT_EQ(call(foreign, kHere), EPERM);
      EXPECT_EQ(call(own->slot, wire::gid_of_ipv4({10, 9, 8, 7})), EADDRNOTAVAIL);
    });
  });
}

// ---- things of which all users need some ----

TEST(SystemDaemon, CapturesAndFaultsOfOneUserLeaveTheOthersTheirs) {
  beside_daemon([] {
    const Beside mallory(kMallory, [](const Beside::Stay& stay) {
      const auto tool = client_of(control::Role::kTool);
      EXPECT_TRUE(start_capture(*tool));
      std::uint32_t set = 0;
      while (set < 100 && set_fault(*tool)) ++set;
      EXPECT_GT(set, 10u);
      stay(0);
    });
    for (const uid_t uid : {kAlice, uid_t{0}}) {
      as(uid, [&] {
        const auto tool = client_of(control::Role::kTool);
        EXPECT_TRUE(start_capture(*tool)) << uid;
        EXPECT_TRUE(set_fault(*tool)) << uid;
      });
    }
  });
}

// The kernel charges them to the daemon.
TEST(SystemDaemon, MessagesThatNobodyReadsTakeLittleMemoryOfTheKernel) {
  in_own_network(
      [] {
        const SystemDaemon daemon;
        const auto silent = client_of(control::Role::kProgram);
        const auto is_heard = [&] { return silent->send(control::encode(control::QueryStatus{}, 2)); };
        EXPECT_TRUE(eventually([&] { return !is_heard(); }, kPatienceMs));
        // Messages that arrive while the daemon is stopped were with the kernel. Each takes at least so many
        // of its bytes.
        constexpr std::size_t kOctetsOfMessage = 512;
        ::kill(daemon.pid(), SIGSTOP);
        EXPECT_LE(silent->skip_all(), 2 * kSendBuffer / kOctetsOfMessage);
        ::kill(daemon.pid(), SIGCONT);
      },
      Privilege::kRoot);
}

// Messages to programs that do not read wait in the daemon with their descriptors.
TEST(SystemDaemon, MessagesThatNobodyReadsLeaveTheOthersDescriptors) {
  in_own_network(
      [] {
        limit_descriptors(1024);
        const SystemDaemon daemon;
        const Beside mallory(kMallory, [](const Beside::Stay& stay) {
          const auto slot_of = [](RawClient& client) {
            EXPECT_TRUE(client.send(control::encode(control::RequestSlot{}, 2)));
            const auto reply = client.receive();
            const auto granted = reply ? reply->as<control::SlotGranted>() : std::nullopt;
            EXPECT_TRUE(granted);
            return granted ? granted->slot : control::Slot{0};
          };
          const auto sender = client_of(control::Role::kProgram);
          control::OfferChannel offer{.from_slot = slot_of(*sender)};
          offer.opaque.resize(control::kOpaqueMax);
          const std::vector<int> fds(control::kChannelFdsMax, STDERR_FILENO);
          std::vector<std::unique_ptr<RawClient>> silent;
          for (bool is_served = true; is_served && silent.size() < 16;) {
            silent.push_back(client_of(control::Role::kProgram));
            offer.to_slot = slot_of(*silent.back());
            for (bool is_taken = true; is_taken;) {
              const auto reply =
                  sender->send(control::encode(offer, 3), fds) ? sender->receive() : std::nullopt;
              is_served = reply.has_value();
              is_taken = is_served && reply->type() == control::MessageType::kDone;
            }
          }
          // The last ones.
          std::vector<std::unique_ptr<RawClient>> more;
          while (more.size() < 50) {
            more.push_back(std::make_unique<RawClient>(kDaemonName));
            (void)more.back()->send(control::encode(control::Hello{}, 1));
          }
          stay(0);
        });
        as(kAlice, [] { EXPECT_TRUE(open_client()->request_slot().ok()); });
      },
      Privilege::kRoot);
}

// ---- texts and numbers ----

TEST(SystemDaemon, NamesOfProgramsMoveNoCursor) {
  beside_daemon([] {
    const Beside mallory(kMallory, [](const Beside::Stay& stay) {
      RawClient client{kDaemonName};
      control::Hello hello;
      hello.program = "evil\x1b[2J\nroot: all is well";
      hello.devices =
          "\xc2\x9b"
          "2J";
      ASSERT_TRUE(client.greet(hello));
      stay(0);
    });
    const auto root = client_of(control::Role::kTool);
    ASSERT_TRUE(root->send(control::encode(control::ListProcesses{}, 2)));
    const auto entry = root->receive();
    ASSERT_TRUE(entry && entry->as<control::ProcessEntry>());
    const std::string body(entry->body.begin(), entry->body.end());
    EXPECT_NE(body.find("evil"), std::string::npos);
    EXPECT_EQ(body.find("\x1b["), std::string::npos);
    EXPECT_EQ(body.find("\nroot"), std::string::npos);
    EXPECT_EQ(body.find("\xc2\x9b"), std::string::npos);
  });
}

// The daemon lives in a PID namespace that does not show the process of the program: its pid is 0 there.
TEST(SystemDaemon, AnInvisibleProgramTakesNoRulesAlong) {
  in_own_network(
      [] {
        const Beside container(0, [](const Beside::Stay& stay) {
          in_container([&] {
            const SystemDaemon daemon;
            const auto tool = client_of(control::Role::kTool);
            EXPECT_TRUE(set_fault(*tool));
            stay(0);
            EXPECT_TRUE(tool->send(control::encode(control::ListFaults{}, 3)));
            const auto listed = tool->receive();
            const auto faults = listed ? listed->as<control::FaultList>() : std::nullopt;
            EXPECT_TRUE(faults && faults->rules.size() == 1);
          });
        });
        as(kMallory, [] {
          const auto watcher = open_client();
          EXPECT_TRUE(RawClient{kDaemonName}.greet());
          EXPECT_TRUE(eventually([&] { return watcher->status()->clients <= 2; }));
        });
        const timespec moment{.tv_sec = 0, .tv_nsec = 300'000'000};
        (void)raw::ppoll(nullptr, 0, &moment);
      },
      Privilege::kRoot);
}

}  // namespace rrdma::daemon::system_daemon_test
