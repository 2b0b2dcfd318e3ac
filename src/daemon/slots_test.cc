// Slots of UDP port 4791: steered by QPN, given out clean, and missing with a reason where they must be.
#include <net/if.h>
#include <netinet/in.h>
#include <sys/wait.h>

#include <set>

#include "base/prng.h"
#include "daemon/slots/parking.h"
#include "daemon/slots/slot_ledger.h"
#include "daemon/test_surroundings.h"
#include "wire/udp.h"

namespace rrdma::daemon {
namespace {

std::uint64_t counter(control::DaemonClient& client, const std::string& name) {
  const auto status = client.status();
  EXPECT_TRUE(status.ok()) << status.error().sentence;
  for (const auto& entry : status->counters) {
    if (entry.name == name) return entry.value;
  }
  return 0;
}

control::GrantedSlot take_slot(control::DaemonClient& client) {
  auto slot = client.request_slot();
  EXPECT_TRUE(slot.ok()) << slot.error().sentence;
  return slot.ok() ? std::move(*slot) : control::GrantedSlot{};
}

TEST(Slots, AllArriveWhereTheirQpnSays) {
  in_own_network([] {
    const auto client = open_client();
    EXPECT_EQ(client->network().families, control::kFamilyV4 | control::kFamilyV6)
        << client->network().reason;
    EXPECT_EQ(client->network().reason, "");
    std::vector<control::GrantedSlot> slots;
    for (int i = 0; i < 255; ++i) slots.push_back(take_slot(*client));
    std::set<int> numbers;
    for (const auto& slot : slots) numbers.insert(slot.slot);
    EXPECT_EQ(numbers.size(), 255u);
    EXPECT_EQ(*numbers.begin(), 1);

    const auto one_more = client->request_slot();
    ASSERT_FALSE(one_more.ok());
    EXPECT_EQ(one_more.error().error, EBUSY);
    EXPECT_NE(one_more.error().sentence.find("all 255 slots"), std::string::npos);

    for (const int family : {AF_INET, AF_INET6}) {
      for (unsigned slot = 0; slot < 256; ++slot) {
        send_to_qpn(family, slot << 16 | 0x1234, static_cast<std::uint8_t>(slot));
        send_to_qpn(family, slot << 16, static_cast<std::uint8_t>(slot));
      }
      for (const auto& slot : slots) {
        const std::vector<std::uint8_t> expected(2, slot.slot);
        EXPECT_EQ(marks_of(family == AF_INET ? slot.sockets.v4 : slot.sockets.v6), expected)
            << "slot " << int{slot.slot};
      }
    }
    EXPECT_TRUE(eventually([&] { return counter(*client, "frames.received") == 4; }));
    EXPECT_EQ(counter(*client, "frames.for_nobody"), 4u);
  });
}

TEST(Slots, DatagramsForSlotsThatAreNotBoundGoToTheDaemon) {
  in_own_network([] {
    const auto client = open_client();
    const auto slot = take_slot(*client);
    for (const unsigned other : {0u, 100u, 255u}) send_to_qpn(AF_INET, other << 16);
    EXPECT_TRUE(eventually([&] { return counter(*client, "frames.received") == 3; }));
    EXPECT_TRUE(marks_of(slot.sockets.v4).empty());
    EXPECT_EQ(client->status()->slots_bound, 16);
  });
}

TEST(Slots, GrowingTheGroupDisturbsNobody) {
  in_own_network([] {
    const auto client = open_client();
    const auto first = take_slot(*client);
    std::vector<control::GrantedSlot> others;
    for (int i = 0; i < 254; ++i) {
      send_to_qpn(AF_INET, std::uint32_t{first.slot} << 16, 7);
      others.push_back(take_slot(*client));
      send_to_qpn(AF_INET, std::uint32_t{others.back().slot} << 16, 9);
      EXPECT_EQ(marks_of(first.sockets.v4), std::vector<std::uint8_t>{7});
      EXPECT_EQ(marks_of(others.back().sockets.v4), std::vector<std::uint8_t>{9});
    }
    EXPECT_EQ(client->status()->slots_bound, 256);
  });
}

TEST(Slots, SocketsTellAddressAndTrafficClass) {
  in_own_network([] {
    const auto client = open_client();
    const auto slot = take_slot(*client);
    const OwnedFd sender(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(raw::setsockopt(sender.get(), IPPROTO_IP, IP_TOS, 0x03), 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(wire::kRoceUdpPort);
    to.sin_addr.s_addr = htonl(0x7f000005);
    std::array<std::uint8_t, 16> datagram{};
    datagram[5] = slot.slot;
    ASSERT_GT(raw::sendto(sender.get(), datagram.data(), datagram.size(), 0, reinterpret_cast<sockaddr*>(&to),
                          sizeof to),
              0);
    iovec content{datagram.data(), datagram.size()};
    alignas(cmsghdr) char control[256];
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ASSERT_EQ(raw::recvmsg(slot.sockets.v4.get(), &message, 0), 16);
    bool address = false, ecn = false;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_type == IP_PKTINFO) {
        in_pktinfo info;
        std::memcpy(&info, CMSG_DATA(c), sizeof info);
        address = info.ipi_addr.s_addr == htonl(0x7f000005);
      }
      if (c->cmsg_type == IP_TOS) ecn = *CMSG_DATA(c) == 0x03;
    }
    EXPECT_TRUE(address);
    EXPECT_TRUE(ecn);
  });
}

TEST(Slots, AHolderCannotChangeTheSteering) {
  in_own_network([] {
    const auto client = open_client();
    const auto slot = take_slot(*client);
    EXPECT_EQ(steer_group(slot.sockets.v4.get(), 1), EPERM);
    EXPECT_EQ(steer_group(slot.sockets.v6.get(), 1), EPERM);
  });
}

TEST(Slots, AReusedSlotIsDrainedAndItsQpnsGoOn) {
  in_own_network([] {
    const auto client = open_client();
    Baton ready;
    Program program([&] {
      const auto own = open_client();
      const auto slot = take_slot(*own);
      std::uint32_t last = 0;
      for (int i = 0; i < 10; ++i) last = own->next_qpn(slot.slot).value;
      ready.pass(last);
      ::pause();
    });
    const auto last_qpn = static_cast<std::uint32_t>(ready.take());
    const auto slot = static_cast<std::uint8_t>(last_qpn >> 16);
    for (int i = 0; i < 5; ++i) send_to_qpn(AF_INET, last_qpn, 1);
    program.kill();
    EXPECT_TRUE(eventually([&] { return counter(*client, "slots.released") == 1; }));
    EXPECT_EQ(counter(*client, "slots.drained_datagrams"), 5u);
    // While nobody holds it, stale packets of the old QP keep coming.
    for (int i = 0; i < 3; ++i) {
      send_to_qpn(AF_INET, last_qpn, 2);
      send_to_qpn(AF_INET6, last_qpn, 2);
    }
    std::vector<control::GrantedSlot> slots;
    do {
      slots.push_back(take_slot(*client));
    } while (slots.back().slot != slot && slots.size() < 20);
    ASSERT_EQ(slots.back().slot, slot);
    EXPECT_GT(slots.size(), 10u) << "the longest free slot is given out first";
    EXPECT_TRUE(marks_of(slots.back().sockets.v4).empty());
    EXPECT_TRUE(marks_of(slots.back().sockets.v6).empty());
    EXPECT_EQ(client->next_qpn(slot).value, (last_qpn & 0xff0000) | ((last_qpn + 1) & 0xffff));
    send_to_qpn(AF_INET, last_qpn, 3);
    EXPECT_EQ(marks_of(slots.back().sockets.v4), std::vector<std::uint8_t>{3});
  });
}

TEST(Slots, AReleasedSlotComesBackToo) {
  in_own_network([] {
    const auto client = open_client();
    auto slot = take_slot(*client);
    const std::uint8_t number = slot.slot;
    const std::uint32_t last = client->next_qpn(number).value;
    slot = {};
    ASSERT_TRUE(client->release_slot(number).ok());
    EXPECT_FALSE(client->release_slot(number).ok());
    EXPECT_EQ(client->status()->slots_held, 0);
    std::vector<control::GrantedSlot> slots;
    for (int i = 0; i < 15; ++i) slots.push_back(take_slot(*client));
    EXPECT_EQ(slots.back().slot, number);
    EXPECT_EQ(client->next_qpn(number).value & 0xffff, (last + 1) & 0xffff);
  });
}

TEST(Slots, TheMulticastQpnIsNeverGivenOut) {
  in_own_network([] {
    const auto client = open_client();
    client->page().next_index(255).store(0xfffe);
    EXPECT_EQ(client->next_qpn(255).value, 0xfffffeu);
    EXPECT_EQ(client->next_qpn(255).value, 0xff0000u);
  });
}

OwnedFd hold_port(int family) {
  auto socket = bind_slot_socket(family, true);
  EXPECT_TRUE(socket.ok());
  return socket.ok() ? std::move(*socket) : OwnedFd();
}

TEST(Slots, AProgramRunsOnThisHostWhileThePortIsTaken) {
  in_own_network([] {
    OwnedFd v4 = hold_port(AF_INET);
    OwnedFd v6 = hold_port(AF_INET6);
    const auto client = open_client();
    EXPECT_EQ(client->network().families, 0);
    EXPECT_NE(client->network().reason.find("UDP port 4791 is held by a program of user"), std::string::npos)
        << client->network().reason;
    EXPECT_NE(client->network().remedy, "");
    const auto slot = take_slot(*client);
    EXPECT_FALSE(slot.sockets.v4.valid());
    EXPECT_NE(slot.slot, 0);

    // The port becomes free: the next program has the network, and the first one gets it after all.
    v4.reset();
    v6.reset();
    EXPECT_TRUE(eventually([&] { return open_client()->network().families == 3; }));
    RecordedEvents events;
    ASSERT_TRUE(handle_until(*client, events, [&] { return !events.arrived.empty(); }));
    EXPECT_EQ(events.arrived[0].slot, slot.slot);
    EXPECT_EQ(client->network().families, 3);
    send_to_qpn(AF_INET, std::uint32_t{slot.slot} << 16, 5);
    EXPECT_EQ(marks_of(events.arrived[0].sockets.v4), std::vector<std::uint8_t>{5});
  });
}

TEST(Slots, OneFamilyMayBeMissing) {
  in_own_network([] {
    const OwnedFd v6 = hold_port(AF_INET6);
    const auto client = open_client();
    EXPECT_EQ(client->network().families, control::kFamilyV4);
    EXPECT_NE(client->network().reason, "");
    const auto slot = take_slot(*client);
    EXPECT_TRUE(slot.sockets.v4.valid());
    EXPECT_FALSE(slot.sockets.v6.valid());
  });
}

TEST(Slots, MulticastReachesTheSlotThatJoinedAndNoOther) {
  in_own_network([] {
    const auto client = open_client();
    auto joined = take_slot(*client);
    const auto other = take_slot(*client);
    const unsigned loopback = ::if_nametoindex("lo");
    const wire::Gid group = wire::gid_of_ipv4({239, 1, 2, 3});
    const auto result = client->join_group(joined.slot, loopback, group);
    ASSERT_TRUE(result.ok()) << result.error().sentence;
    const auto send = [&] {
      const OwnedFd sender(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      const ip_mreqn interface {
        .imr_multiaddr = {}, .imr_address = {htonl(INADDR_LOOPBACK)},
        .imr_ifindex = static_cast<int>(loopback)
      };
      EXPECT_EQ(raw::setsockopt(sender.get(), IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface), 0);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(wire::kRoceUdpPort);
      to.sin_addr.s_addr = htonl(0xef010203);
      std::array<std::uint8_t, 16> datagram{};
      datagram[5] = datagram[6] = datagram[7] = 0xff;
      EXPECT_EQ(
          raw::sendto(sender.get(), datagram.data(), 16, 0, reinterpret_cast<sockaddr*>(&to), sizeof to), 16);
    };
    send();
    EXPECT_EQ(marks_of(joined.sockets.v4).size(), 1u);
    EXPECT_TRUE(marks_of(other.sockets.v4).empty());

    // The next holder of the socket is no member.
    const OwnedFd same_socket = joined.sockets.v4.duplicate();
    joined.sockets.v4.reset();
    ASSERT_TRUE(client->release_slot(joined.slot).ok());
    send();
    EXPECT_TRUE(marks_of(same_socket).empty());
    EXPECT_FALSE(client->join_group(joined.slot, loopback, group).ok());
  });
}

TEST(Parking, SocketsOutliveTheirMaker) {
  in_own_network([] {
    auto parking = Parking::create();
    ASSERT_TRUE(parking.ok());
    Prng prng(1);
    auto ledger = SlotLedger::create(prng);
    ASSERT_TRUE(ledger.ok());
    ledger->row(7).next_index = 4711;
    Parcel parcel;
    parcel.families = control::kFamilyV4;
    parcel.ledger = OwnedFd(raw::fcntl(ledger->fd(), F_DUPFD_CLOEXEC, 3));
    for (unsigned i = 0; i < kParcelSlots[0]; ++i) {
      auto socket = bind_slot_socket(AF_INET, i == 0);
      ASSERT_TRUE(socket.ok());
      parcel.slots.push_back({std::move(*socket), {}});
    }
    ASSERT_EQ(steer_group(parcel.slots[0].sockets.v4.get(), kParcelSlots[0]), 0);
    ASSERT_EQ(parking->park(parcel), 0);
    parcel = {};
    OwnedFd end(raw::fcntl(parking->end(), F_DUPFD_CLOEXEC, 3));
    parking = Failure{0};

    auto adopted = Parking::adopt(std::move(end));
    ASSERT_TRUE(adopted.has_value());
    EXPECT_EQ(adopted->slots_parked(), kParcelSlots[0]);
    for (std::uint8_t slot = 1; slot < kParcelSlots[0]; ++slot) {
      send_to_qpn(AF_INET, std::uint32_t{slot} << 16, slot);
      EXPECT_EQ(marks_of(adopted->sockets_of(slot).sockets.v4), std::vector<std::uint8_t>{slot});
    }
    auto again = SlotLedger::adopt(std::move(adopted->peek(0)->ledger));
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->row(7).next_index, 4711u);

    int ends[2];
    ASSERT_EQ(raw::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    const OwnedFd unused(ends[1]);
    EXPECT_FALSE(Parking::adopt(OwnedFd(ends[0])).has_value());
  });
}

TEST(Ledger, KnowsTheLivingFromTheDead) {
  Prng prng(1);
  auto ledger = SlotLedger::create(prng);
  ASSERT_TRUE(ledger.ok());
  ledger->hold(3, {.pid = raw::getpid(), .uid = ::geteuid()});
  EXPECT_EQ(ledger->holder_state(3), SlotLedger::Holder::kAlive);
  ledger->row(3).start_time -= 1;
  EXPECT_EQ(ledger->holder_state(3), SlotLedger::Holder::kDead);
  ledger->hold(4, {.pid = 0, .uid = ::geteuid()});
  EXPECT_EQ(ledger->holder_state(4), SlotLedger::Holder::kUnknown);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ledger->hold(5, {.pid = child, .uid = ::geteuid()});
  ledger->row(5).start_time |= 1;
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(ledger->holder_state(5), SlotLedger::Holder::kDead);
}

}  // namespace
}  // namespace rrdma::daemon
