// Slots of UDP port 4791: steered by QPN, given out clean, and refused with a reason.
#include <net/if.h>
#include <netinet/in.h>
#include <sys/wait.h>

#include <set>

#include "base/keys/key_source.h"
#include "daemon/slots/parking.h"
#include "daemon/slots/slot_ledger.h"
#include "daemon/test_surroundings.h"
#include "wire/udp.h"

namespace rrdma::daemon::slots_test {

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

// Takes many slots of several programs: all large ones and some of the next size.
struct ManySlots {
  std::vector<std::unique_ptr<control::DaemonClient>> clients;
  std::vector<control::GrantedSlot> slots;

  void take_one() {
    if (slots.size() % control::kSlotsOfProgramMax == 0) clients.push_back(open_client());
    slots.push_back(take_slot(*clients.back()));
  }
};
constexpr std::size_t kMany = 200;

TEST(Slots, AllArriveWhereTheirQpnSays) {
  in_own_network([] {
    ManySlots many;
    for (std::size_t i = 0; i < kMany; ++i) many.take_one();
    control::DaemonClient& client = *many.clients[0];
    EXPECT_EQ(client.network().families, control::kFamilyV4 | control::kFamilyV6) << client.network().reason;
    EXPECT_EQ(client.network().reason, "");
    std::set<int> numbers;
    for (const auto& slot : many.slots) numbers.insert(slot.slot);
    EXPECT_EQ(numbers.size(), kMany);
    EXPECT_EQ(*numbers.begin(), 1);
    EXPECT_EQ(*numbers.rbegin(), int{kMany});

    for (const int family : {AF_INET, AF_INET6}) {
      for (control::Slot slot = 0; slot <= kMany; ++slot) {
        const auto [first, count] = control::qpns_of(slot);
        send_to_qpn(family, first, static_cast<std::uint8_t>(slot));
        send_to_qpn(family, first + count - 1, static_cast<std::uint8_t>(slot));
      }
      for (const auto& slot : many.slots) {
        const std::vector<std::uint8_t> expected(2, static_cast<std::uint8_t>(slot.slot));
        EXPECT_EQ(marks_of(family == AF_INET ? slot.sockets.v4 : slot.sockets.v6), expected)
            << "slot " << slot.slot;
      }
    }
    EXPECT_TRUE(eventually([&] { return counter(client, "frames.received") == 4; }));
  });
}

TEST(Slots, AProgramHoldsNoMoreThanItMay) {
  in_own_network([] {
    const auto client = open_client();
    std::vector<control::GrantedSlot> slots;
    for (std::size_t i = 0; i < control::kSlotsOfProgramMax; ++i) slots.push_back(take_slot(*client));
    const auto one_more = client->request_slot();
    ASSERT_FALSE(one_more.ok());
    EXPECT_EQ(one_more.error().error, EDQUOT);
    EXPECT_NE(one_more.error().sentence.find("hold 16 slots"), std::string::npos)
        << one_more.error().sentence;
    slots.back() = {};
    ASSERT_TRUE(client->release_slot(slots[0].slot).ok());
    EXPECT_TRUE(client->request_slot().ok());
  });
}

TEST(Slots, DatagramsForSlotsThatAreNotBoundGoToTheDaemon) {
  in_own_network([] {
    const auto client = open_client();
    const auto slot = take_slot(*client);
    for (const unsigned other : {0u, 50u, 100u, 2000u, 5183u})
      send_to_qpn(AF_INET, control::qpns_of(static_cast<control::Slot>(other)).first);
    EXPECT_TRUE(eventually([&] { return counter(*client, "frames.received") == 5; }));
    EXPECT_TRUE(marks_of(slot.sockets.v4).empty());
    EXPECT_EQ(client->status()->slots_bound, 16);
  });
}

TEST(Slots, GrowingTheGroupDisturbsNobody) {
  in_own_network([] {
    ManySlots many;
    many.take_one();
    for (std::size_t i = 0; i < kMany; ++i) {
      send_to_qpn(AF_INET, control::qpns_of(many.slots[0].slot).first, 7);
      many.take_one();
      send_to_qpn(AF_INET, control::qpns_of(many.slots.back().slot).first, 9);
      EXPECT_EQ(marks_of(many.slots[0].sockets.v4), std::vector<std::uint8_t>{7});
      EXPECT_EQ(marks_of(many.slots.back().sockets.v4), std::vector<std::uint8_t>{9});
    }
    EXPECT_EQ(many.clients[0]->status()->slots_bound, 256);
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
    store_be24(datagram.data() + 5, control::qpns_of(slot.slot).first);
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
    // While the slot is free, stale packets of the old QP keep coming.
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
    const control::Slot number = slot.slot;
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
    constexpr control::Slot kLast = control::kSlotCount - 1;
    client->page().next_index(kLast).store(2046);
    EXPECT_EQ(client->next_qpn(kLast).value, 0xfffffeu);
    EXPECT_EQ(client->next_qpn(kLast).value, 0xfff800u);
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

    // The port becomes free: the next program has the network, and the first one gets it as well.
    v4.reset();
    v6.reset();
    EXPECT_TRUE(eventually([&] { return open_client()->network().families == 3; }));
    RecordedEvents events;
    ASSERT_TRUE(handle_until(*client, events, [&] { return !events.arrived.empty(); }));
    EXPECT_EQ(events.arrived[0].slot, slot.slot);
    EXPECT_EQ(client->network().families, 3);
    send_to_qpn(AF_INET, control::qpns_of(slot.slot).first, 5);
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
    KeySource keys(1);
    auto ledger = SlotLedger::create(keys);
    ASSERT_TRUE(ledger.ok());
    ledger->free(7, 4711);
    Parcel parcel;
    parcel.families = control::kFamilyV4;
    parcel.ledger = OwnedFd(raw::fcntl(ledger->fd(), F_DUPFD_CLOEXEC, 3));
    for (unsigned i = 0; i < parcel_slots(0); ++i) {
      auto socket = bind_slot_socket(AF_INET, i == 0);
      ASSERT_TRUE(socket.ok());
      parcel.slots.push_back({std::move(*socket), {}});
    }
    ASSERT_EQ(steer_group(parcel.slots[0].v4.get(), parcel_slots(0)), 0);
    ASSERT_EQ(parking->park(parcel), 0);
    parcel = {};
    OwnedFd end(raw::fcntl(parking->end(), F_DUPFD_CLOEXEC, 3));
    parking = Failure{0};

    auto adopted = Parking::adopt(std::move(end));
    ASSERT_TRUE(adopted.has_value());
    EXPECT_EQ(adopted->slots_parked(), parcel_slots(0));
    for (std::uint8_t slot = 1; slot < parcel_slots(0); ++slot) {
      send_to_qpn(AF_INET, control::qpns_of(slot).first, slot);
      EXPECT_EQ(marks_of(adopted->sockets_of(slot).v4), std::vector<std::uint8_t>{slot});
    }
    auto again = SlotLedger::adopt(std::move(adopted->peek(0)->ledger), keys);
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->row(7).next_index, 4711u);

    int ends[2];
    ASSERT_EQ(raw::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    const OwnedFd unused(ends[1]);
    EXPECT_FALSE(Parking::adopt(OwnedFd(ends[0])).has_value());
  });
}

}  // namespace rrdma::daemon::slots_test
