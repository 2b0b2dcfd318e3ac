// The shares of users of a system daemon: what has a bound for all users has one for each of them, whatever
// uids and namespaces a user has.
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>

#include "attacker.h"
#include "control/capture_messages.h"
#include "control/cm_messages.h"
#include "control/fault_messages.h"
#include "control/identity.h"
#include "control/process_page.h"
#include "control/recognition_messages.h"
#include "daemon/qp1/peer_book.h"
#include "host/clock.h"

namespace rrdma::daemon::shares_test {

// Acts as another uid of its namespace.
class ActingAs {
 public:
  explicit ActingAs(uid_t uid) { EXPECT_EQ(::setresuid(uid, uid, 0), 0); }
  ~ActingAs() { EXPECT_EQ(::setresuid(0, 0, 0), 0); }
  ActingAs(const ActingAs&) = delete;
  ActingAs& operator=(const ActingAs&) = delete;
};

// Its connection would have a second share, that of all unknown users.
TEST(Shares, AConnectionOfAProgramThatHasEndedIsNotServed) {
  in_own_network(
      [] {
        const SystemDaemon daemon;
        ::kill(daemon.pid(), SIGSTOP);
        const Beside mallory(kMallory, [](const Beside::Stay& stay) {
          Baton connected;
          // It shares the descriptors of this process.
          const auto ended = static_cast<pid_t>(::syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0));
          if (ended == 0) {
            OwnedFd connection = control::connect_to(control::kNetworkName);
            connected.pass(static_cast<std::uint64_t>(connection.release()));
            ::_exit(0);
          }
          EXPECT_EQ(::waitpid(ended, nullptr, 0), ended);
          RawClient heir{OwnedFd(static_cast<int>(connected.take()))};
          EXPECT_TRUE(heir.send(control::encode(control::Hello{}, 1)));
          stay(0);
          EXPECT_FALSE(heir.receive());
        });
        ::kill(daemon.pid(), SIGCONT);
        EXPECT_TRUE(eventually([] { return counter(*open_client(), "connections.of_ended") == 1; }));
      },
      Privilege::kRoot);
}

// Sets faults as many users, until each is refused.
void set_faults(const Beside::Stay& stay) {
  std::vector<std::unique_ptr<RawClient>> tools;
  std::uint64_t set = 0;
  for (uid_t uid = 1; uid <= 60; ++uid) {
    const ActingAs other(uid);
    tools.push_back(client_of(control::Role::kTool));
    while (set_fault(*tools.back())) ++set;
  }
  stay(set);
}

void expect_fault_for_alice() {
  as(kAlice, [] { EXPECT_TRUE(set_fault(*client_of(control::Role::kTool))); });
}

TEST(Shares, FaultsOfManyUidsAreChargedToTheirOwner) {
  beside_daemon([] {
    const ManyUids mallory(100, set_faults);
    EXPECT_LT(mallory.value(), control::kRulesMax);
    expect_fault_for_alice();
  });
}

// Its root may have every uid.
TEST(Shares, FaultsOfManyUidsOfAContainerAreChargedToIt) {
  beside_daemon([] {
    const Beside container(0, [](const Beside::Stay& stay) { in_container([&] { set_faults(stay); }); });
    EXPECT_LT(container.value(), control::kRulesMax);
    expect_fault_for_alice();
  });
}

TEST(Shares, CapturesOfManyUidsAreChargedToTheirOwner) {
  in_own_network(
      [] {
        need_descriptors(16'384);
        const SystemDaemon daemon;
        const ManyUids mallory(1200, [](const Beside::Stay& stay) {
          std::vector<std::unique_ptr<RawClient>> tools;
          std::uint64_t started = 0;
          for (uid_t uid = 1; uid <= 1200; ++uid) {
            const ActingAs other(uid);
            tools.push_back(client_of(control::Role::kTool));
            if (!start_capture(*tools.back())) break;
            ++started;
          }
          stay(started);
        });
        EXPECT_LT(mallory.value(), 1000u);
        as(kAlice, [] { EXPECT_TRUE(start_capture(*client_of(control::Role::kTool))); });
      },
      Privilege::kRoot);
}

// The daemon kept a pointer to the tool of the second capture after the tool was gone.
TEST(Shares, AToolThatChangesItsUserHasOneCapture) {
  beside_daemon([] {
    const ManyUids mallory(10, [](const Beside::Stay& stay) {
      {
        const auto tool = client_of(control::Role::kTool);
        {
          const ActingAs other(1);
          EXPECT_TRUE(start_capture(*tool));
        }
        const ActingAs other(2);
        EXPECT_FALSE(start_capture(*tool));
      }
      const ActingAs other(2);
      EXPECT_TRUE(eventually([] { return start_capture(*client_of(control::Role::kTool)); }));
      stay(0);
    });
  });
}

void bind_all(const Beside::Stay& stay) {
  const auto client = open_client();
  stay(bind_all_ports(*client));
}

void expect_port_for_alice() {
  as(kAlice,
     [] { EXPECT_TRUE(open_client()->request<control::CmBound>(control::CmBind{.number = 1}).ok()); });
}

TEST(Shares, OneUserDoesNotTakeAllPorts) {
  beside_daemon([] {
    const Beside mallory(kMallory, bind_all);
    EXPECT_LT(mallory.value(), 28'232u);
    expect_port_for_alice();
  });
}

// Its uid is the daemon's own, which has no bound but the whole.
TEST(Shares, RootOfAContainerHasTheShareOfAUser) {
  beside_daemon([] {
    const Beside container(0, [](const Beside::Stay& stay) { in_container([&] { bind_all(stay); }); });
    EXPECT_LT(container.value(), 15'000u);
    expect_port_for_alice();
  });
}

TEST(Shares, AProgramThatGaveUpRootHasTheShareOfAUser) {
  beside_daemon([] {
    Program server([] {
      const auto client = open_client();
      become(kMallory);
      EXPECT_LT(bind_all_ports(*client), 15'000u);
    });
    EXPECT_TRUE(server.succeeded());
  });
}

// Root made its user namespace, as for the containers of several runtimes.
TEST(Shares, AUserNamespaceOfRootHasTheShareOfAUser) {
  beside_daemon([] {
    const auto bind_as_other = [](const Beside::Stay& stay) {
      const ActingAs other(1);
      bind_all(stay);
    };
    const ManyUids container(10, bind_as_other, 0);
    EXPECT_LT(container.value(), 15'000u);
    expect_port_for_alice();
  });
}

// ---- messages to programs of others ----

TEST(Shares, FaultsOfOneUserSendNothingToProgramsOfOthers) {
  beside_daemon([] {
    const Beside alice(kAlice, [](const Beside::Stay& stay) {
      const auto program = client_of(control::Role::kProgram);
      stay(0);
      ASSERT_TRUE(program->send(control::encode(control::QueryStatus{}, 2)));
      const auto next = program->receive();
      ASSERT_TRUE(next);
      EXPECT_EQ(next->type(), control::MessageType::kStatus);
    });
    as(kMallory, [] {
      const auto tool = client_of(control::Role::kTool);
      EXPECT_TRUE(set_fault(*tool));
      ASSERT_TRUE(tool->send(control::encode(control::ClearFault{}, 3)));
      EXPECT_EQ(tool->receive()->type(), control::MessageType::kDone);
    });
  });
}

// The kernel counts descriptors in messages that nobody has read for the user of the daemon, and refuses more
// than a daemon without capabilities may open. Here that user is one whom no other process of the host has.
void beside_daemon_without_capabilities(const std::function<void()>& body) {
  in_own_network(
      [&] {
        constexpr uid_t kOwner = 54399;
        const ManyUids host(
            60'000,
            [&](const Beside::Stay& stay) {
              limit_descriptors(2048);
              {
                const SystemDaemon daemon;
                body();
              }
              stay(0);
            },
            kOwner);
      },
      Privilege::kRoot);
}

control::Slot slot_of(RawClient& client) {
  EXPECT_TRUE(client.send(control::encode(control::RequestSlot{}, 2)));
  const auto reply = client.receive();
  const auto granted = reply ? reply->as<control::SlotGranted>() : std::nullopt;
  return granted ? granted->slot : control::kDaemonSlot;
}

// Sends descriptors to the program until the daemon takes no more for it.
void fill(RawClient& sender, control::Slot from, control::Slot to) {
  const control::OfferChannel offer{.from_slot = from, .to_slot = to};
  const std::vector<int> fds(control::kChannelFdsMax, STDERR_FILENO);
  std::optional<control::Received> reply;
  do {
    EXPECT_TRUE(sender.send(control::encode(offer, 3), fds));
    do {
      reply = sender.receive();
    } while (reply && reply->type() == control::MessageType::kPeerGone);
  } while (reply && reply->type() == control::MessageType::kDone);
  EXPECT_TRUE(reply);
}

void expect_slot_for_alice() {
  as(kAlice, [] {
    const auto slot = open_client()->request_slot();
    EXPECT_TRUE(slot.ok()) << slot.error().sentence;
  });
}

TEST(Shares, DescriptorsThatNobodyReadsLeaveTheOthersTheirs) {
  beside_daemon_without_capabilities([] {
    const Beside mallory(kMallory, [](const Beside::Stay& stay) {
      const auto sender = client_of(control::Role::kProgram);
      const control::Slot from = slot_of(*sender);
      std::vector<std::unique_ptr<RawClient>> silent;
      for (int i = 0; i < 30; ++i) {
        silent.push_back(client_of(control::Role::kProgram));
        fill(*sender, from, slot_of(*silent.back()));
      }
      stay(0);
      for (const auto& one : silent) (void)one->skip_all();
      EXPECT_NE(slot_of(*client_of(control::Role::kProgram)), control::kDaemonSlot) << "they read everything";
    });
    expect_slot_for_alice();
  });
}

// The messages stay with the program when the daemon has closed the connection.
TEST(Shares, DescriptorsOfConnectionsThatEndedLeaveTheOthersTheirs) {
  beside_daemon_without_capabilities([] {
    const Beside mallory(kMallory, [](const Beside::Stay& stay) {
      const auto sender = client_of(control::Role::kProgram);
      const control::Slot from = slot_of(*sender);
      std::vector<std::unique_ptr<RawClient>> silent;
      for (int i = 0; i < 30; ++i) {
        silent.push_back(client_of(control::Role::kProgram));
        fill(*sender, from, slot_of(*silent.back()));
        silent.back()->hang_up();
      }
      stay(0);
      silent.clear();
      EXPECT_TRUE(
          eventually([] { return slot_of(*client_of(control::Role::kProgram)) != control::kDaemonSlot; }));
    });
    expect_slot_for_alice();
  });
}

// The kernel charges them to the daemon, whose connections they are not any more.
TEST(Shares, RefusalsThatNobodyReadsAreFew) {
  beside_daemon_without_capabilities([] {
    as(kMallory, [] {
      const std::string name(control::kNetworkName);
      std::vector<std::unique_ptr<RawClient>> all;
      do {
        all.push_back(std::make_unique<RawClient>(name));
      } while (all.back()->greet());
      std::vector<std::unique_ptr<RawClient>> refused;
      for (int i = 0; i < 200; ++i) refused.push_back(std::make_unique<RawClient>(name));
      (void)refused.back()->receive();
      const auto has_reason = [](const auto& one) { return one->skip_all() != 0; };
      EXPECT_LT(std::count_if(refused.begin(), refused.end(), has_reason), 100);
      EXPECT_TRUE(eventually([&] { return RawClient(name).receive().has_value(); })) << "they were read";
    });
  });
}

// ---- tables of the daemon ----

TEST(Shares, LastAnswersOfOneUserLeaveTheOthersTheirs) {
  beside_daemon([] {
    const Beside alice(kAlice, [](const Beside::Stay& stay) {
      const auto peer = client_of(control::Role::kProgram);
      ASSERT_TRUE(peer->send(control::encode(control::RequestSlot{}, 2)));
      const auto slot = peer->receive()->as<control::SlotGranted>();
      ASSERT_TRUE(slot);
      const auto page = page_with_answers(1, control::qpns_of(slot->slot).first + 1);
      auto program = client_of(control::Role::kProgram, page.fd());
      stay(0);
      program.reset();
      const auto answer = peer->receive();
      EXPECT_TRUE(answer && answer->as<control::FrameForwarded>()) << "the last acknowledgement";
    });
    as(kMallory, [] {
      const auto watcher = open_client();
      const auto page = page_with_answers(256, control::qpns_of(1).first + 1);
      std::vector<std::unique_ptr<RawClient>> programs;
      for (int i = 0; i < 8; ++i) programs.push_back(client_of(control::Role::kProgram, page.fd()));
      programs.clear();  // what they said is repeated for 0.9 s
      EXPECT_TRUE(eventually([&] { return watcher->status()->clients <= 3; }));
    });
  });
}

// A page of a program whose device has carried something.
control::ProcessPage page_with_device(const char* name) {
  auto page = control::ProcessPage::create();
  EXPECT_TRUE(page.ok());
  auto& counter = page->counter("messages_sent");
  page->part_of(counter, page->add_device(name))->store(7);
  return std::move(*page);
}

// The names of the devices that the user of this process sees.
std::vector<std::string> devices_seen() {
  const auto tool = client_of(control::Role::kTool);
  EXPECT_TRUE(tool->send(control::encode(control::ListDevices{}, 2)));
  std::vector<std::string> names;
  for (auto next = tool->receive(); next && next->type() != control::MessageType::kDone;
       next = tool->receive()) {
    if (const auto device = next->as<control::DeviceEntry>()) names.push_back(device->name);
  }
  return names;
}

TEST(Shares, TotalsOfManyUidsLeaveTheOthersTheirs) {
  beside_daemon([] {
    as(kAlice, [] {
      const auto page = page_with_device("alices");
      (void)client_of(control::Role::kProgram, page.fd());
    });
    const ManyUids mallory(400, [](const Beside::Stay& stay) {
      const auto page = page_with_device("mallorys");
      for (uid_t uid = 1; uid <= 300; ++uid) {
        const ActingAs other(uid);
        (void)client_of(control::Role::kProgram, page.fd());
      }
      stay(0);
    });
    as(kAlice, [] {
      const auto watcher = open_client();
      EXPECT_TRUE(eventually([&] { return watcher->status()->clients == 1; }));
      EXPECT_EQ(devices_seen(), std::vector<std::string>{"alices"});
    });
  });
}

// Asks whether a host is RRDMA; true if the daemon knows by now.
bool is_known(RawClient& client, std::uint32_t number) {
  control::RecognisePeer question{.local = kHere, .remote = wire::gid_of_ipv4({10, 0, 0, 0})};
  for (std::size_t i = 0; i < 3; ++i)
    question.remote.octets[15 - i] = static_cast<std::uint8_t>(number >> 8 * i);
  EXPECT_TRUE(client.send(control::encode(question, 2)));
  const auto reply = client.receive();
  const auto answer = reply ? reply->as<control::PeerRecognised>() : std::nullopt;
  EXPECT_TRUE(answer);
  return answer && answer->known;
}

TEST(Shares, RecognitionsOfOneUserLeaveTheOthersTheirs) {
  beside_daemon([] {
    Baton finish;
    Beside mallory(kMallory, [&](const Beside::Stay& stay) {
      const auto program = client_of(control::Role::kProgram);
      std::uint32_t number = 0;
      while (number < PeerBook::kPeersMax + 256) (void)is_known(*program, ++number);
      stay(0);
      pollfd wait{.fd = finish.reader(), .events = POLLIN, .revents = 0};
      const timespec none{};
      while (raw::ppoll(&wait, 1, &none) == 0) (void)is_known(*program, ++number);
    });
    mallory.go_on();
    as(kAlice, [] {
      const auto program = client_of(control::Role::kProgram);
      // A host that never answers is a stranger after three questions.
      EXPECT_TRUE(eventually([&] { return is_known(*program, 0xffffff); }));
    });
    finish.pass();
  });
}

}  // namespace rrdma::daemon::shares_test
