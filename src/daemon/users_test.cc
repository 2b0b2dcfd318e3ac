// Access between users and daemons: a second user without and with a system daemon, and users that a
// namespace does not map. Needs root to be several users, except for the last test.
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "control/identity.h"
#include "control/names.h"
#include "daemon/test_surroundings.h"

namespace rrdma::daemon::users_test {

constexpr uid_t kAlice = 54321;
constexpr uid_t kBob = 54322;

TEST(Users, TheSecondOneHasNoNetworkButThisHost) {
  in_own_network(
      [] {
        Baton alice_ready, alice_done, alice_gone;
        ::setenv("RRDMA_DAEMON_LINGER", "0", 1);
        Program alice([&] {
          become(kAlice);
          const auto client = open_client();
          EXPECT_EQ(client->network().families, 3);
          alice_ready.pass();
          alice_done.take();
        });
        alice_ready.take();
        Program bob([&] {
          become(kBob);
          const auto client = open_client();
          EXPECT_EQ(client->network().families, 0);
          EXPECT_EQ(client->welcome().daemon_uid, kBob);
          EXPECT_NE(client->network().reason.find("uid " + std::to_string(kAlice)), std::string::npos)
              << client->network().reason;
          EXPECT_NE(client->network().remedy.find("systemctl"), std::string::npos);
          // Two programs of Bob still find each other.
          const auto other = open_client();
          auto from = client->request_slot();
          auto to = other->request_slot();
          ASSERT_TRUE(from.ok() && to.ok());
          const auto owner = client->look_up_slot(to->slot);
          EXPECT_TRUE(owner.ok() && owner->found && owner->same_user);
          EXPECT_TRUE(client->offer_channel(from->slot, to->slot, {}, {}).ok());

          // Once Alice has left, Bob's daemon takes the network.
          alice_done.pass();
          alice_gone.take();
          EXPECT_TRUE(eventually([&] { return open_client()->network().families == 3; }));
          RecordedEvents events;
          EXPECT_TRUE(handle_until(*client, events, [&] { return !events.arrived.empty(); }));
        });
        EXPECT_TRUE(alice.succeeded());
        alice_gone.pass();
        EXPECT_TRUE(bob.succeeded());
      },
      Privilege::kRoot);
}

// Any process may take an abstract name. A squatter gets no program to talk to, and prevents no daemon from
// running.
TEST(Users, SquattersOfNamesAreInNobodysWay) {
  in_own_network(
      [] {
        Baton squatted, done;
        Program alice([&] {
          become(kAlice);
          std::vector<OwnedFd> names;
          for (const std::string& name :
               {control::user_name(kBob), control::start_name(kBob), std::string(control::kNetworkName)}) {
            names.push_back(control::listen_on(name));
            ASSERT_TRUE(names.back().valid());
          }
          squatted.pass();
          done.take();
        });
        squatted.take();
        Program bob([&] {
          become(kBob);
          const auto client = control::DaemonClient::connect_or_start({});
          ASSERT_TRUE(client.ok()) << client.error().sentence;
          EXPECT_EQ((*client)->welcome().daemon_uid, kBob);
          EXPECT_EQ((*client)->network().families, 3) << (*client)->network().reason;
          EXPECT_TRUE((*client)->request_slot().ok());
        });
        EXPECT_TRUE(bob.succeeded());
        done.pass();
        EXPECT_TRUE(alice.succeeded());
      },
      Privilege::kRoot);
}

TEST(Users, ASystemDaemonServesAll) {
  in_own_network(
      [] {
        const pid_t daemon = start_daemon({"--system"}, std::string(control::kNetworkName));
        Baton alice_slot, alice_done;
        Program alice([&] {
          become(kAlice);
          const auto client = open_client();
          auto slot = client->request_slot();
          ASSERT_TRUE(slot.ok());
          EXPECT_TRUE(client->welcome().is_system);
          alice_slot.pass(slot->slot);
          alice_done.take();
          const std::uint32_t qpn = control::qpns_of(slot->slot).first;
          send_to_qpn(AF_INET, qpn, 4);
          EXPECT_EQ(marks_relayed(*slot, 1), std::vector<std::uint8_t>{4});
        });
        const auto foreign = static_cast<control::Slot>(alice_slot.take());
        Program bob([&] {
          become(kBob);
          const auto client = open_client();
          EXPECT_EQ(client->network().families, 3) << client->network().reason;
          EXPECT_FALSE(client->welcome().has_parking) << "it would let Bob read Alice's packets";
          auto slot = client->request_slot();
          ASSERT_TRUE(slot.ok());
          const auto owner = client->look_up_slot(foreign);
          ASSERT_TRUE(owner.ok());
          EXPECT_TRUE(owner->found);
          EXPECT_FALSE(owner->same_user);
          EXPECT_EQ(owner->pid, 0u);
          const auto offer = client->offer_channel(slot->slot, foreign, {}, {});
          ASSERT_FALSE(offer.ok());
          EXPECT_EQ(offer.error().error, EACCES);
          const auto listed = client->list_processes();
          ASSERT_TRUE(listed.ok());
          EXPECT_EQ(listed->size(), 1u) << "only Bob's own";
          send_to_qpn(AF_INET6, control::qpns_of(slot->slot).first, 6);
          EXPECT_EQ(marks_relayed(*slot, 1), std::vector<std::uint8_t>{6});
        });
        EXPECT_TRUE(bob.succeeded());
        alice_done.pass();
        EXPECT_TRUE(alice.succeeded());
        ::kill(daemon, SIGTERM);
        ::waitpid(daemon, nullptr, 0);
        EXPECT_TRUE(eventually([] { return daemons_here().empty(); })) << "the keeper retires";
      },
      Privilege::kRoot);
}

TEST(Users, ARestartedSystemDaemonTakesOver) {
  in_own_network(
      [] {
        const std::string name(control::kNetworkName);
        const pid_t daemon = start_daemon({"--system"}, name);
        Baton slot_known, killed, finish;
        Program alice([&] {
          become(kAlice);
          const auto client = open_client();
          auto slot = client->request_slot();
          ASSERT_TRUE(slot.ok());
          slot_known.pass(slot->slot);
          killed.take();
          RecordedEvents events;
          EXPECT_TRUE(handle_until(*client, events, [&] { return events.arrived.size() == 1; }));
          EXPECT_EQ(events.daemons, 1);
          EXPECT_TRUE(events.lost.empty());
          EXPECT_TRUE(client->welcome().is_system) << "a program must not replace a system daemon by its own";
          const auto status = client->status();
          EXPECT_TRUE(status.ok() && status->took_over && status->slots_held == 1);
          send_to_qpn(AF_INET, control::qpns_of(slot->slot).first, 8);
          EXPECT_EQ(marks_relayed(events.arrived[0], 1), std::vector<std::uint8_t>{8});
          finish.take();
        });
        slot_known.take();
        ::kill(daemon, SIGKILL);
        ::waitpid(daemon, nullptr, 0);
        const pid_t next = start_daemon({"--system"}, name);
        killed.pass();
        finish.pass();
        EXPECT_TRUE(alice.succeeded());
        ::kill(next, SIGKILL);
        ::waitpid(next, nullptr, 0);
      },
      Privilege::kRoot);
}

// A daemon that trusts no user cannot use sockets that programs hold: it has no network until those programs
// end.
TEST(Users, SocketsOfTrustedUsersAreNotTakenOver) {
  in_own_network(
      [] {
        const std::string name(control::kNetworkName);
        const pid_t trusting = start_daemon({"--system", "--trust-users"}, name);
        Baton slot_known, finish;
        Program alice([&] {
          become(kAlice);
          const auto client = open_client();
          auto slot = client->request_slot();
          ASSERT_TRUE(slot.ok());
          EXPECT_TRUE(slot->sockets.v4.valid() && !slot->relay.valid());
          slot_known.pass(slot->slot);
          finish.take();
        });
        slot_known.take();
        ::kill(trusting, SIGKILL);
        ::waitpid(trusting, nullptr, 0);
        const pid_t next = start_daemon({"--system"}, name);
        Program bob([&] {
          become(kBob);
          EXPECT_EQ(open_client()->network().families, 0);
        });
        EXPECT_TRUE(bob.succeeded());
        finish.pass();
        EXPECT_TRUE(alice.succeeded());
        // The keeper has released them, too.
        Program bob_again([&] {
          become(kBob);
          EXPECT_TRUE(eventually([] { return open_client()->network().families == 3; }));
        });
        EXPECT_TRUE(bob_again.succeeded());
        ::kill(next, SIGTERM);
        ::waitpid(next, nullptr, 0);
      },
      Privilege::kRoot);
}

// systemd keeps the parking: FDSTORE through $NOTIFY_SOCKET, back through $LISTEN_FDS.
TEST(Users, TheStoreOfSystemdIsUsed) {
  in_own_network(
      [] {
        const OwnedFd service(raw::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string name = "rrdma.test.notify";
        std::memcpy(address.sun_path + 1, name.data(), name.size());
        ASSERT_EQ(raw::bind(service.get(), reinterpret_cast<sockaddr*>(&address),
                            static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
                  0);
        ::setenv("NOTIFY_SOCKET", ("@" + name).c_str(), 1);
        const pid_t daemon = start_daemon({"--system"}, std::string(control::kNetworkName));
        std::string texts;
        OwnedFd stored;
        ASSERT_TRUE(eventually([&] {
          char text[256] = {};
          iovec content{text, sizeof text - 1};
          alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
          msghdr message{};
          message.msg_iov = &content;
          message.msg_iovlen = 1;
          message.msg_control = control;
          message.msg_controllen = sizeof control;
          if (raw::recvmsg(service.get(), &message, MSG_DONTWAIT) <= 0) return false;
          texts += text;
          if (const cmsghdr* rights = CMSG_FIRSTHDR(&message); rights != nullptr) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
            stored.reset(fd);
          }
          return stored.valid() && texts.find("READY=1") != std::string::npos;
        })) << texts;
        EXPECT_NE(texts.find("FDSTORE=1\nFDNAME=rrdma-parking"), std::string::npos);
        EXPECT_EQ(daemons_here().size(), 1u) << "no keeper beside systemd";

        Baton ready;
        Program alice([&] {
          become(kAlice);
          const auto client = open_client();
          auto slot = client->request_slot();
          ASSERT_TRUE(slot.ok());
          ready.pass();
          RecordedEvents events;
          EXPECT_TRUE(handle_until(*client, events, [&] { return events.arrived.size() == 1; }));
          send_to_qpn(AF_INET, control::qpns_of(slot->slot).first, 8);
          EXPECT_EQ(marks_relayed(events.arrived[0], 1), std::vector<std::uint8_t>{8});
        });
        ready.take();
        ::kill(daemon, SIGKILL);
        ::waitpid(daemon, nullptr, 0);
        const pid_t next = ::fork();
        if (next == 0) {
          ::dup2(stored.get(), 3);
          ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
          ::setenv("LISTEN_FDS", "1", 1);
          ::setenv("LISTEN_FDNAMES", "rrdma-parking", 1);
          ::execl(::getenv("RRDMA_DAEMON"), "rrdmad", "--system", nullptr);
          ::_exit(127);
        }
        EXPECT_TRUE(alice.succeeded());
        control::DaemonSettings tool;
        tool.role = control::Role::kTool;
        EXPECT_TRUE(open_client(tool)->status()->took_over);
        ::kill(next, SIGKILL);
        ::waitpid(next, nullptr, 0);
      },
      Privilege::kRoot);
}

TEST(Users, RootSeesTheProgramsOfAll) {
  in_own_network(
      [] {
        const pid_t daemon = start_daemon({"--system"}, std::string(control::kNetworkName));
        Baton ready, done;
        Program alice([&] {
          become(kAlice);
          const auto client = open_client();
          client->page().counter("packets.sent").fetch_add(17);
          ready.pass();
          done.take();
        });
        ready.take();
        control::DaemonSettings tool;
        tool.role = control::Role::kTool;
        const auto listed = open_client(tool)->list_processes();
        ASSERT_TRUE(listed.ok());
        ASSERT_EQ(listed->size(), 1u);
        EXPECT_EQ((*listed)[0].entry.uid, kAlice);
        const auto view = control::ProcessPageView::open((*listed)[0].page.get());
        ASSERT_TRUE(view.ok());
        EXPECT_EQ(view->counters().at(0).value, 17u);
        done.pass();
        EXPECT_TRUE(alice.succeeded());
        ::kill(daemon, SIGTERM);
        ::waitpid(daemon, nullptr, 0);
      },
      Privilege::kRoot);
}

TEST(Users, SeeWhatTheirOwnProgramsCarried) {
  in_own_network(
      [] {
        const pid_t daemon = start_daemon({"--system"}, std::string(control::kNetworkName));
        const auto octets = [] {
          control::DaemonSettings tool;
          tool.role = control::Role::kTool;
          const auto listed = open_client(tool)->list_devices();
          return !listed || listed->empty() ? 0 : listed->at(0).counters.at(0).value;
        };
        const auto carry = [](uid_t user, std::uint64_t amount) {
          Program one([&] {
            become(user);
            const auto client = open_client();
            control::ProcessPage& page = client->page();
            const std::uint32_t device = page.add_device("rrdma0");
            page.part_of(page.counter("octets_sent"), device)->fetch_add(amount);
          });
          EXPECT_TRUE(one.succeeded());
        };
        carry(kAlice, 100);
        carry(kNobody, 10);
        EXPECT_TRUE(eventually([&] { return octets() == 110; })) << "root sees what all carried";
        Program alice([&] {
          become(kAlice);
          EXPECT_EQ(octets(), 100u);
        });
        EXPECT_TRUE(alice.succeeded());
        ::kill(daemon, SIGTERM);
        ::waitpid(daemon, nullptr, 0);
      },
      Privilege::kRoot);
}

// In a user namespace without a map, every user is 65534. Equal uids prove nothing there, so the kernel is
// asked in another way.
TEST(Users, AnUnmappedUserIsStillServedByItsOwnDaemon) {
  in_own_network([] {
    if (::unshare(CLONE_NEWUSER) != 0) return;
    ASSERT_EQ(::geteuid(), kNobody);
    EXPECT_FALSE(control::uid_is_unambiguous(kNobody));
    const auto client = open_client();
    auto slot = client->request_slot();
    EXPECT_TRUE(slot.ok());
    EXPECT_FALSE(control::is_own_user({.pid = 1, .uid = kNobody, .namespaces = control::own_namespaces()}))
        << "the first process is root's";
  });
}

}  // namespace rrdma::daemon::users_test
