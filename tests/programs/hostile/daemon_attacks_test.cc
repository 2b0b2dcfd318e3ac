// Attacks on rrdmad by those who may talk to it: another user of the host, a container with the same uid, a
// stranger on the network. Each was possible once.
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "attacker.h"
#include "base/prng.h"
#include "control/capture_messages.h"
#include "control/cm_messages.h"
#include "control/identity.h"
#include "control/names.h"
#include "wire/cm_mad.h"
#include "wire/icrc.h"
#include "wire/transport_packet.h"
#include "wire/udp.h"

namespace rrdma::daemon::daemon_attacks_test {

// The address of the one IP header in the message becomes one that is not IPv4, though its version says so.
std::vector<std::uint8_t> with_foreign_address(std::vector<std::uint8_t> datagram) {
  const std::vector<std::uint8_t> mapped = {4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
  const auto at = std::search(datagram.begin(), datagram.end(), mapped.begin(), mapped.end());
  EXPECT_NE(at, datagram.end());
  at[3] = 0xfe;
  return datagram;
}

TEST(Attack, ACallWithAnAddressThatIsNoneIsRefused) {
  beside_daemon([] {
    as(kMallory, [] {
      control::CmLookUp question{.number = 2};
      question.parameters.ip = call_from(kHere).parameters.ip;
      for (const auto& message : {control::encode(call_from(kHere), 2), control::encode(question, 2)}) {
        RawClient mallory{std::string(control::kNetworkName)};
        ASSERT_TRUE(mallory.greet());
        ASSERT_TRUE(mallory.send(with_foreign_address(message)));
        const auto reply = mallory.receive();
        ASSERT_TRUE(reply);
        EXPECT_EQ(reply->type(), control::MessageType::kRefused);
        EXPECT_FALSE(mallory.receive()) << "and hung up";
      }
    });
    as(kAlice, [] { EXPECT_TRUE(open_client()->request_slot().ok()); });
  });
}

// One well-formed message of every kind that a client may send.
std::vector<std::vector<std::uint8_t>> one_of_each() {
  using namespace control;
  const cm::ConnectionId nobody{77};
  cm::EstablishedConnection standing{.id = {5}, .remote_id = {6}};
  standing.route = {.local = kHere, .remote = kHere};
  return {encode(RequestSlot{}, 2),
          encode(ReleaseSlot{.slot = 1}, 2),
          encode(UpdateProcess{.links = 7, .devices = "x"}, 2),
          encode(LookUpSlot{.slot = 1}, 2),
          encode(OfferChannel{.from_slot = 1, .to_slot = 2, .opaque = {1}}, 2),
          encode(ForwardFrame{.content = {.frame = std::vector<std::uint8_t>(64, 0)}}, 0),
          encode(ListProcesses{}, 2),
          encode(QueryStatus{}, 2),
          encode(JoinGroup{.slot = 1, .interface_index = 1, .group = wire::gid_of_ipv4({239, 0, 0, 1})}, 2),
          encode(LeaveGroup{.slot = 1, .interface_index = 1, .group = wire::gid_of_ipv4({239, 0, 0, 1})}, 2),
          encode(CmBind{.number = 1, .reuse = true, .port = 99}, 2),
          encode(CmRelease{.number = 1}, 2),
          encode(CmListen{.number = 1, .backlog = 4}, 2),
          encode(call_from(kHere), 2),
          encode(CmLookUp{.number = 3}, 2),
          encode(CmAccept{.connection = nobody}, 2),
          encode(CmReject{.connection = nobody}, 2),
          encode(CmReplyLookUp{.connection = nobody}, 2),
          encode(CmReady{.connection = nobody}, 2),
          encode(CmNotify{.connection = nobody}, 2),
          encode(CmDisconnect{.connection = nobody}, 2),
          encode(CmDestroy{.connection = nobody}, 2),
          encode(CmRestore{.number = 1, .connection = standing}, 2),
          encode(StartCapture{.pid = 0}, 2),
          encode(StopCapture{}, 2)};
}

TEST(Attack, NoMessageOfAnyKindEndsTheDaemon) {
  beside_daemon([] {
    as(kMallory, [] {
      const std::uint64_t seed = 20261116;
      Prng prng(seed);
      const auto originals = one_of_each();
      for (int round = 0; round < 60; ++round) {
        for (const auto& original : originals) {
          RawClient mallory{std::string(control::kNetworkName)};
          if (!mallory.greet()) continue;
          for (int i = 0; i < 6; ++i) {
            auto datagram = original;
            for (std::uint64_t n = prng.below(5); n > 0 && datagram.size() > sizeof(control::Header); --n) {
              datagram[prng.between(sizeof(control::Header), datagram.size() - 1)] =
                  static_cast<std::uint8_t>(prng.below(3) == 0 ? 0xff : prng.next());
            }
            if (!mallory.send(datagram)) break;
            mallory.skip_all();
          }
        }
      }
    });
    as(kAlice, [] { EXPECT_TRUE(open_client()->request_slot().ok()); });
  });
}

// A container of root's with the host's network: uid 0, in a PID namespace of its own.
TEST(Attack, RootOfAnotherPidNamespaceIsAStranger) {
  beside_daemon([] {
    const Beside victim(0, [](const Beside::Stay& stay) {
      const auto client = open_client();
      auto slot = client->request_slot();
      ASSERT_TRUE(slot.ok());
      EXPECT_FALSE(client->welcome().has_parking) << "a system daemon gives no parking, not even to root";
      stay(slot->slot);
    });
    const auto foreign = static_cast<control::Slot>(victim.value());
    Program container([&] {
      in_container([&] {
        RawClient mallory{std::string(control::kNetworkName)};
        const auto welcome = mallory.greet();
        ASSERT_TRUE(welcome);
        EXPECT_FALSE(welcome->has_parking);
        ASSERT_TRUE(mallory.send(control::encode(control::LookUpSlot{.slot = foreign}, 2)));
        const auto owner = mallory.receive()->as<control::SlotOwner>();
        ASSERT_TRUE(owner);
        EXPECT_FALSE(owner->same_user);
        EXPECT_EQ(owner->token, 0u);
        ASSERT_TRUE(mallory.send(control::encode(control::ListProcesses{}, 3)));
        EXPECT_EQ(mallory.receive()->as<control::ProcessEntry>()->token, welcome->token) << "itself";
        EXPECT_EQ(mallory.receive()->type(), control::MessageType::kDone) << "and nobody else";
        ASSERT_TRUE(mallory.send(control::encode(control::RequestSlot{}, 4)));
        const auto own = mallory.receive()->as<control::SlotGranted>();
        ASSERT_TRUE(own);
        const control::OfferChannel offer{.from_slot = own->slot, .to_slot = foreign};
        ASSERT_TRUE(mallory.send(control::encode(offer, 5)));
        EXPECT_EQ(mallory.receive()->as<control::Failed>()->error, EACCES);
      });
    });
    EXPECT_TRUE(container.succeeded());
  });
}

// A MAD as a program would pass it on, for QP1.
control::FrameFields forged_mad() {
  wire::TransportHeaders headers{};
  headers.bth.opcode = wire::Opcode{wire::Transport::kUnreliableDatagram, wire::Step::kSendOnly};
  headers.bth.pkey = wire::kDefaultPKey;
  headers.bth.destination = wire::kGeneralServicesQpn;
  headers.deth.qkey = {0x80010000};
  headers.deth.source = wire::kGeneralServicesQpn;
  control::FrameFields fields;
  fields.source = wire::gid_of_ipv4({10, 9, 8, 7});
  fields.destination = kHere;
  fields.frame.resize(wire::kHeaderOctetsMax);
  fields.frame.resize(wire::emit_transport_headers(headers, fields.frame.data()));
  fields.frame.resize(fields.frame.size() + wire::kMadOctets + wire::kIcrcOctets);
  return fields;
}

TEST(Attack, NoProgramSpeaksForTheNetwork) {
  beside_daemon([] {
    for (const uid_t uid : {kMallory, uid_t{0}}) {
      as(uid, [] {
        const auto client = open_client();
        control::FrameFields frame = forged_mad();
        client->forward_frame(frame);  // source port 0: once taken for "somebody has checked the ICRC"
        frame.source_port = 0xc000;
        client->forward_frame(frame);
        EXPECT_TRUE(eventually([&] { return counter(*client, "frames.for_daemon") >= 2; }));
        EXPECT_EQ(counter(*client, "cm.mads_received"), 0u);
      });
    }
  });
}

// To port 4791 of this host, from its own address and `from`.
void send_to_port(in_port_t from, const std::vector<std::uint8_t>& datagram) {
  const OwnedFd socket(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  address.sin_port = htons(from);
  EXPECT_EQ(raw::bind(socket.get(), generic, sizeof address), 0);
  EXPECT_EQ(raw::setsockopt(socket.get(), IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO), 0);
  address.sin_port = htons(wire::kRoceUdpPort);
  EXPECT_GT(raw::sendto(socket.get(), datagram.data(), datagram.size(), 0, generic, sizeof address), 0);
}

TEST(Attack, AMadWithAWrongIcrcIsNotHeard) {
  in_own_network([] {
    const auto client = open_client();
    ASSERT_TRUE(client->request_slot().ok());
    for (in_port_t i = 0; i < 20; ++i) send_to_port(static_cast<in_port_t>(0xd000 + i), forged_mad().frame);
    EXPECT_TRUE(eventually([&] { return counter(*client, "cm.mads_corrupt") == 20; }));
    EXPECT_EQ(counter(*client, "cm.mads_received"), 0u);
  });
}

// Every user may send from an address of the host. The host's own daemon never does so to itself.
TEST(Attack, AMadFromAnAddressOfThisHostIsNotHeard) {
  beside_daemon([] {
    as(kMallory, [] {
      const auto client = open_client();
      ASSERT_TRUE(client->request_slot().ok());
      auto frame = forged_mad().frame;
      constexpr in_port_t kFrom = 0xd000;
      constexpr wire::Ipv4Address kLoopback = {127, 0, 0, 1};
      const auto covered = Octets(frame).first(frame.size() - wire::kIcrcOctets);
      wire::store_icrc(frame.data() + covered.size(),
                       wire::IcrcSeed::ipv4(kLoopback, kLoopback, kFrom).icrc(covered));
      send_to_port(kFrom, frame);
      EXPECT_TRUE(eventually([&] { return counter(*client, "cm.mads_forged") == 1; }));
      EXPECT_EQ(counter(*client, "cm.mads_received"), 0u);
    });
  });
}

// Frames that programs pass on have addresses that nobody has checked.
TEST(Attack, NoFrameIsPassedOnToAnotherUser) {
  beside_daemon([] {
    const Beside alice(kAlice, [](const Beside::Stay& stay) {
      const auto client = open_client();
      stay(client->request_slot()->slot);
      RecordedEvents events;
      EXPECT_FALSE(handle_until(
          *client, events, [&] { return !events.frames.empty(); }, 300));
    });
    const auto qpn = control::qpns_of(static_cast<control::Slot>(alice.value())).first + 1;
    as(kMallory, [&] {
      const auto client = open_client();
      control::FrameFields frame = forged_mad();
      store_be24(frame.frame.data() + 5, qpn);
      client->forward_frame(frame);
      EXPECT_TRUE(eventually([&] { return counter(*client, "frames.for_other_user") == 1; }));
    });
  });
}

TEST(Attack, OneUserDoesNotLockTheOthersOut) {
  in_own_network(
      [] {
        limit_descriptors(2048);
        const SystemDaemon daemon;
        const Beside mallory(kMallory, [](const Beside::Stay& stay) {
          std::vector<OwnedFd> connections;
          const timespec moment{.tv_sec = 0, .tv_nsec = 1'000'000};
          for (bool refused = false; !refused && connections.size() < 1500;) {
            connections.push_back(control::connect_to(control::kNetworkName));
            if (connections.back().valid()) {
              pollfd answered{.fd = connections.back().get(), .events = POLLIN, .revents = 0};
              const timespec none{};
              refused = connections.size() % 64 == 0 && raw::ppoll(&answered, 1, &none) == 1;
            } else {
              connections.pop_back();  // others wait to be accepted
              (void)raw::ppoll(nullptr, 0, &moment);
            }
          }
          stay(connections.size());
        });
        EXPECT_GT(mallory.value(), 100u);
        as(kAlice, [] {
          const auto client = open_client();
          EXPECT_EQ(client->network().families, 3) << client->network().reason;
          EXPECT_TRUE(client->request_slot().ok());
        });
      },
      Privilege::kRoot);
}

TEST(Attack, APortIsNotSharedWithoutEnd) {
  in_own_network([] {
    const auto client = open_client();
    int error = 0;
    std::uint32_t number = 0;
    while (error == 0 && ++number < 4'000) {
      const auto bound = client->request<control::CmBound>(
          control::CmBind{.number = number, .reuse = true, .address = kHere, .port = 4000});
      if (!bound) error = bound.error().error;
    }
    EXPECT_EQ(error, EADDRINUSE);
    EXPECT_EQ(number, 1025u);
    EXPECT_TRUE(client->request<control::CmBound>(control::CmBind{.number = number, .port = 4001}).ok());
  });
}

// Seconds of processor time that a process has used.
double processor_time(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

TEST(Attack, ADaemonWithoutDescriptorsWaitsForThem) {
  in_own_network([] {
    const auto client = open_client();
    const auto pid = static_cast<pid_t>(client->welcome().daemon_pid);
    const rlimit few{.rlim_cur = 40, .rlim_max = 40};
    ASSERT_EQ(::prlimit(pid, RLIMIT_NOFILE, &few, nullptr), 0);
    std::vector<OwnedFd> connections;
    for (int i = 0; i < 100; ++i) connections.push_back(control::connect_to(control::user_name(::geteuid())));
    EXPECT_TRUE(client->status().ok()) << "who is there already is served";
    const double before = processor_time(pid);
    const timespec second{.tv_sec = 1, .tv_nsec = 0};
    (void)raw::ppoll(nullptr, 0, &second);
    EXPECT_LT(processor_time(pid) - before, 0.3) << "it spins";
    connections.clear();
    EXPECT_TRUE(eventually([&] { return control::DaemonClient::connect_or_start({}).ok(); }));
  });
}

TEST(Attack, StrangersAreTurnedAwayAtTheDoor) {
  in_own_network(
      [] {
        Baton ready, finish;
        Program alice([&] {
          become(kAlice);
          const auto client = open_client();
          ready.pass();
          finish.take();
          EXPECT_GE(counter(*client, "clients.strangers"), 50u);
          EXPECT_EQ(client->status()->clients, 1);
        });
        ready.take();
        as(kMallory, [] {
          for (int i = 0; i < 50; ++i) {
            RawClient mallory{control::user_name(kAlice)};
            const auto reply = mallory.receive();
            ASSERT_TRUE(reply);
            EXPECT_EQ(reply->type(), control::MessageType::kRefused);
          }
          EXPECT_FALSE(control::connect_to(
                           control::user_paths(kAlice).empty() ? "/nowhere" : control::user_paths(kAlice)[0])
                           .valid());
        });
        finish.pass();
        EXPECT_TRUE(alice.succeeded());
      },
      Privilege::kRoot);
}

}  // namespace rrdma::daemon::daemon_attacks_test
