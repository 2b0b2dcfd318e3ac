// UDP port 4791 among users who do not trust each other: no program of a system daemon gets a socket of the
// port, and nothing that it does with what it got reaches the packets of others. With --trust-users it does
// get one.
#include <netinet/in.h>
#include <sys/socket.h>

#include "attacker.h"
#include "control/slot.h"

#ifndef SO_DETACH_REUSEPORT_BPF
#define SO_DETACH_REUSEPORT_BPF 68
#endif

namespace rrdma::daemon::shared_port_test {

constexpr std::size_t kSlotsOfGroup = 15;  // that are bound at first, less the daemon's own

struct Granted {
  control::Slot slot = 0;
  std::vector<OwnedFd> fds;
};

Granted request_slot(RawClient& client) {
  EXPECT_TRUE(client.send(control::encode(control::RequestSlot{}, 2)));
  auto reply = client.receive();
  const auto granted = reply ? reply->as<control::SlotGranted>() : std::nullopt;
  EXPECT_TRUE(granted);
  return granted ? Granted{granted->slot, std::move(reply->fds)} : Granted{};
}

// The last byte of each datagram that waits on one of the descriptors.
std::vector<std::uint8_t> marks_on(const std::vector<OwnedFd>& fds) {
  std::vector<std::uint8_t> marks;
  std::array<std::uint8_t, 4096> datagram;
  for (const OwnedFd& fd : fds) {
    for (;;) {
      const ssize_t octets =
          raw::recvfrom(fd.get(), datagram.data(), datagram.size(), MSG_DONTWAIT, nullptr, nullptr);
      if (octets <= 0) break;
      marks.push_back(datagram[static_cast<std::size_t>(octets) - 1]);
    }
  }
  return marks;
}

int domain_of(int fd) {
  int domain = -1;
  socklen_t size = sizeof domain;
  return raw::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 ? domain : -1;
}

// Everything that is known to disturb a group from one of its members.
void misuse(int fd) {
  (void)raw::setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, 1);
  (void)raw::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, 0);
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(40'000);
  peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)raw::connect(fd, reinterpret_cast<const sockaddr*>(&peer), sizeof peer);
}

TEST(SharedPort, NoProgramOfASystemDaemonHoldsASocketOfThePort) {
  beside_daemon([] {
    as(kMallory, [] {
      RawClient mallory{std::string(control::kNetworkName)};
      ASSERT_TRUE(mallory.greet());
      const Granted granted = request_slot(mallory);
      EXPECT_FALSE(granted.fds.empty());
      for (const OwnedFd& fd : granted.fds) EXPECT_EQ(domain_of(fd.get()), AF_UNIX);
    });
  });
}

TEST(SharedPort, TheAdministratorMayTrustAllUsers) {
  in_own_network(
      [] {
        const SystemDaemon daemon({"--system", "--trust-users"});
        as(kAlice, [] {
          RawClient alice{std::string(control::kNetworkName)};
          ASSERT_TRUE(alice.greet());
          const Granted granted = request_slot(alice);
          ASSERT_EQ(granted.fds.size(), 2u);
          EXPECT_EQ(domain_of(granted.fds[0].get()), AF_INET);
          EXPECT_EQ(domain_of(granted.fds[1].get()), AF_INET6);
        });
      },
      Privilege::kRoot);
}

// A program that keeps the descriptors of a slot after releasing it must not read the packets of the next
// holder. A program that misuses its descriptors in every known way must not stop the packets of others.
TEST(SharedPort, DescriptorsOfAFormerHolderReachNobody) {
  beside_daemon([] {
    Baton kept, sent, finish;
    Program mallory([&] {
      become(kMallory);
      std::vector<OwnedFd> fds;
      RawClient client{std::string(control::kNetworkName)};
      ASSERT_TRUE(client.greet());
      for (std::size_t i = 0; i < kSlotsOfGroup; ++i) {
        Granted granted = request_slot(client);
        for (OwnedFd& fd : granted.fds) fds.push_back(std::move(fd));
        ASSERT_TRUE(client.send(control::encode(control::ReleaseSlot{.slot = granted.slot}, 3)));
        (void)client.receive();
      }
      kept.pass();
      sent.take();
      EXPECT_TRUE(marks_on(fds).empty()) << "packets of the next holder";
      for (const OwnedFd& fd : fds) misuse(fd.get());
      kept.pass();
      finish.take();
    });
    kept.take();
    as(kAlice, [&] {
      RawClient alice{std::string(control::kNetworkName)};
      ASSERT_TRUE(alice.greet());
      const Granted own = request_slot(alice);
      std::vector<std::uint8_t> marks;
      const auto collect = [&] {
        for (const std::uint8_t mark : marks_on(own.fds)) marks.push_back(mark);
        return marks.size() >= 16;
      };
      // The kernel picks by index first, else by a hash of the source port: several of them.
      for (std::uint8_t i = 0; i < 16; ++i) send_to_qpn(AF_INET, control::qpns_of(own.slot).first + 1, i);
      EXPECT_TRUE(eventually(collect)) << marks.size() << " of 16 came";
      sent.pass();
      kept.take();
      marks.clear();
      for (std::uint8_t i = 0; i < 16; ++i) send_to_qpn(AF_INET, control::qpns_of(own.slot).first + 1, i);
      EXPECT_TRUE(eventually(collect)) << marks.size() << " of 16 came after the group was misused";
    });
    finish.pass();
    EXPECT_TRUE(mallory.succeeded());
  });
}

}  // namespace rrdma::daemon::shared_port_test
