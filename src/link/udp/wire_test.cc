// UdpLink against the wire: a tun device whose other end is this test, so that it can inspect every IP packet
// that leaves and forge those that arrive. Packets that leave must be correct to the last bit, identification
// included. Captured packets of the kernel's rxe must be accepted.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "link/test_frames.h"
#include "link/udp/private_network.h"
#include "link/udp/udp_link.h"
#include "wire/pcap_reader.h"
#include "wire/roce_packet.h"

namespace rrdma::link::wire_test {

namespace net = private_network;

// 10.77.0.host, fd77::host: the addresses of the captures.
wire::Gid captured_address(int family, std::uint8_t host) {
  if (family == AF_INET) return wire::gid_of_ipv4({10, 77, 0, host});
  wire::Gid gid;
  gid.octets[0] = 0xfd;
  gid.octets[1] = 0x77;
  gid.octets[15] = host;
  return gid;
}

class Tun {
 public:
  // A device with the addresses of `host`.
  explicit Tun(std::uint8_t host) : fd_(raw::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK)) {
    ifreq request{};
    std::strcpy(request.ifr_name, "rocetun");
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    const OwnedFd control(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd_ || ioctl(fd_.get(), TUNSETIFF, &request) < 0) return;
    const auto set = [&](unsigned long code, std::array<std::uint8_t, 4> octets) {
      auto& address = reinterpret_cast<sockaddr_in&>(request.ifr_addr);
      address = {};
      address.sin_family = AF_INET;
      std::memcpy(&address.sin_addr, octets.data(), 4);
      return ioctl(control.get(), code, &request) == 0;
    };
    if (!set(SIOCSIFADDR, captured_address(AF_INET, host).ipv4()) || !set(SIOCSIFNETMASK, {255, 255, 255, 0}))
      return;
    request.ifr_mtu = 9000;
    if (ioctl(control.get(), SIOCSIFMTU, &request) < 0) return;
    request.ifr_flags = IFF_UP;
    if (ioctl(control.get(), SIOCSIFFLAGS, &request) < 0) return;
    up_ = net::add_ipv6("rocetun", captured_address(AF_INET6, host), 64);
  }

  [[nodiscard]] bool up() const { return up_; }
  // The next RoCE packet that left; empty if there is none.
  std::vector<std::uint8_t> next() {
    std::vector<std::uint8_t> packet(10'000);
    for (int idle = 0; idle < 200;) {
      const ssize_t octets = raw::read(fd_.get(), packet.data(), packet.size());
      if (octets < 0) {
        ++idle;
        usleep(100);
        continue;
      }
      packet.resize(static_cast<std::size_t>(octets));
      if (wire::parse_frame(wire::LinkType::kRawIp, packet).ok()) return packet;
      packet.resize(10'000);  // neighbour discovery and the like
    }
    return {};
  }
  bool inject(Octets packet) {
    return raw::write(fd_.get(), packet.data(), packet.size()) == static_cast<ssize_t>(packet.size());
  }

 private:
  OwnedFd fd_;
  bool up_ = false;
};

std::unique_ptr<UdpLink> open_link(const UdpConfig& config = {}) {
  IpSockets slot;
  slot.v4 = net::slot_socket_at(AF_INET, {});
  slot.v6 = net::slot_socket_at(AF_INET6, {});
  auto link = UdpLink::open(std::span(&slot, 1), config);
  EXPECT_TRUE(link.ok());
  return std::move(*link);
}

class WireTest : public testing::TestWithParam<int> {
 protected:
  [[nodiscard]] int family() const { return GetParam(); }
  // Frames point to it until the flush.
  [[nodiscard]] const objects::Path& path() {
    path_.local = captured_address(family(), 2);
    path_.remote = captured_address(family(), 3);
    path_.source_port = 0xc888;
    return path_;
  }

 private:
  objects::Path path_;
};
INSTANTIATE_TEST_SUITE_P(Families, WireTest, testing::Values(AF_INET, AF_INET6),
                         [](const auto& parameter) { return parameter.param == AF_INET ? "Ipv4" : "Ipv6"; });

void expect_right(const std::vector<std::uint8_t>& packet, const objects::Path& path, std::uint16_t port,
                  std::uint16_t identification) {
  const auto frame = wire::parse_frame(wire::LinkType::kRawIp, packet);
  ASSERT_TRUE(frame.ok());
  EXPECT_TRUE(frame->icrc_right());
  EXPECT_EQ(frame->udp.source, port);
  EXPECT_EQ(frame->udp.destination, 4791);
  EXPECT_NE(frame->udp_checksum, wire::ChecksumVerdict::kWrong);
  if (const auto* ip = std::get_if<wire::Ipv4Header>(&frame->network)) {
    EXPECT_EQ(ip->identification, identification);
    EXPECT_TRUE(ip->dont_fragment);
    EXPECT_EQ(ip->tos, path.traffic_class);
    EXPECT_EQ(ip->ttl, path.hop_limit);
    EXPECT_EQ(wire::gid_of(ip->source), path.local);
  } else {
    const auto& ip6 = std::get<wire::Ipv6Header>(frame->network);
    EXPECT_EQ(ip6.traffic_class, path.traffic_class);
    EXPECT_EQ(ip6.hop_limit, path.hop_limit);
    EXPECT_EQ(wire::gid_of(ip6.source), path.local);
  }
}

TEST_P(WireTest, LonePacketsAreRightToTheLastBit) {
  Tun tun(2);
  if (!tun.up()) GTEST_SKIP() << "no tun device";
  auto link = open_link();
  const auto memory = test::random_octets(8192);
  objects::Path to_peer = path();
  for (const std::uint8_t hop_limit : {std::uint8_t{64}, std::uint8_t{7}}) {
    for (const std::uint8_t traffic_class : {std::uint8_t{0}, std::uint8_t{0x68}}) {
      to_peer.hop_limit = hop_limit;
      to_peer.traffic_class = traffic_class;
      for (const std::size_t octets : {0u, 5u, 300u, 4096u}) {
        ASSERT_TRUE(test::send(*link, to_peer, {.psn = 1, .octets = octets}, memory.data()));
        link->flush({});
        const auto packet = tun.next();
        ASSERT_FALSE(packet.empty());
        expect_right(packet, to_peer, link->source_port(to_peer), 0);
        EXPECT_EQ(wire::parse_frame(wire::LinkType::kRawIp, packet)->udp.checksum, 0);
      }
    }
  }
}

TEST_P(WireTest, TrainsAreCutIntoPacketsThatAreRight) {
  Tun tun(2);
  if (!tun.up()) GTEST_SKIP() << "no tun device";
  auto link = open_link();
  const auto memory = test::random_octets(64 * 1024);
  const objects::Path to_peer = path();
  for (const std::size_t octets : {8u, 1024u, 4096u}) {
    for (std::uint32_t i = 0; i < 14; ++i) {
      ASSERT_TRUE(test::send(*link, to_peer, {wire::Step::kSendMiddle, i, i == 13 ? octets - 3 : octets},
                             memory.data() + i * octets));
    }
    link->flush({});
    for (std::uint16_t i = 0; i < 14; ++i) {
      const auto packet = tun.next();
      ASSERT_FALSE(packet.empty());
      expect_right(packet, to_peer, link->source_port(to_peer), i);
      const auto frame = wire::parse_frame(wire::LinkType::kRawIp, packet);
      EXPECT_EQ(wire::parse_bth(frame->transport.data()).psn, wire::Psn(i));
    }
  }
  EXPECT_EQ(link->tally().trains_sent, 3u);
}

TEST_P(WireTest, ChecksumZeroIsOnEveryPacketWhereAskedFor) {
  Tun tun(2);
  if (!tun.up()) GTEST_SKIP() << "no tun device";
  UdpConfig config;
  config.checksum = UdpChecksum::kZero;
  auto link = open_link(config);
  const auto memory = test::random_octets(8192);
  for (std::uint32_t i = 0; i < 8; ++i)
    ASSERT_TRUE(test::send(*link, path(), {.psn = i, .octets = 1024}, memory.data()));
  link->flush({});
  for (std::uint32_t i = 0; i < 8; ++i) {
    const auto packet = tun.next();
    ASSERT_FALSE(packet.empty());
    expect_right(packet, path(), link->source_port(path()), 0);
    EXPECT_EQ(wire::parse_frame(wire::LinkType::kRawIp, packet)->udp.checksum, 0);
  }
}

TEST_P(WireTest, APacketLongerThanTheDeviceTakesIsCounted) {
  Tun tun(2);
  if (!tun.up()) GTEST_SKIP() << "no tun device";
  ASSERT_EQ(std::system("ip link set rocetun mtu 1500"), 0);
  auto link = open_link();
  const auto memory = test::random_octets(16 * 1024);
  for (std::uint32_t i = 0; i < 4; ++i)
    ASSERT_TRUE(test::send(*link, path(), {.psn = i, .octets = 4096}, memory.data()));
  ASSERT_TRUE(test::send(*link, path(), {.psn = 9, .octets = 1024}, memory.data()));
  link->flush({});
  EXPECT_EQ(link->tally().dropped_too_long, 4u);
  EXPECT_TRUE(link->segments()) << "it was not the segmentation";
  expect_right(tun.next(), path(), link->source_port(path()), 0);
}

TEST_P(WireTest, MulticastLeavesByTheDeviceWithTheHopLimitOfThePath) {
  Tun tun(2);
  if (!tun.up()) GTEST_SKIP() << "no tun device";
  UdpConfig config;
  config.interface_index = if_nametoindex("rocetun");
  auto link = open_link(config);
  const auto memory = test::random_octets(1024);
  objects::Path to_group = path();
  if (family() == AF_INET) {
    to_group.remote = wire::gid_of_ipv4({239, 1, 2, 3});
  } else {
    to_group.remote.octets = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};
  }
  for (std::uint32_t i = 0; i < 4; ++i)
    ASSERT_TRUE(test::send(*link, to_group, {.psn = i, .octets = 256}, memory.data()));
  link->flush({});
  for (std::uint16_t i = 0; i < 4; ++i) {
    const auto packet = tun.next();
    ASSERT_FALSE(packet.empty());
    expect_right(packet, to_group, link->source_port(to_group), i);
  }
}

// Packets that the Linux kernel's rxe sent, with its identifications, in the order of the capture.
TEST(KernelPackets, AreAccepted) {
  std::map<std::string, std::size_t> by_file;
  for (const auto& entry : std::filesystem::directory_iterator(RRDMA_CAPTURES_FOLDER)) {
    if (entry.path().extension() != ".pcap") continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::vector<std::uint8_t> file{std::istreambuf_iterator<char>(stream), {}};
    for (const std::uint8_t host : {std::uint8_t{2}, std::uint8_t{3}}) {
      Tun tun(host);
      if (!tun.up()) GTEST_SKIP() << "no tun device";
      auto link = open_link();
      auto reader = wire::PcapReader::open(file);
      ASSERT_TRUE(reader.ok());
      std::size_t injected = 0;
      test::Collector collector;
      for (;;) {
        auto next = reader->next();
        ASSERT_TRUE(next.ok());
        if (!*next) break;
        const auto frame = wire::parse_frame((*next)->link, (*next)->octets);
        if (!frame.ok() || !frame->icrc_right()) continue;
        const auto* ip = std::get_if<wire::Ipv4Header>(&frame->network);
        const auto* ip6 = std::get_if<wire::Ipv6Header>(&frame->network);
        if (ip == nullptr && ip6 == nullptr) continue;
        const wire::Gid destination =
            ip != nullptr ? wire::gid_of(ip->destination) : wire::gid_of(ip6->destination);
        if (destination != captured_address(ip != nullptr ? AF_INET : AF_INET6, host)) continue;
        ASSERT_TRUE(tun.inject((*next)->octets.subspan(frame->ethernet->octets())));
        ++injected;
        for (int i = 0; i < 1000 && collector.packets.size() < injected; ++i)
          link->poll(collector, Instant{i * 10'000}, 16);
        ASSERT_EQ(collector.packets.size(), injected) << entry.path();
      }
      EXPECT_EQ(link->tally().refused_icrc + link->tally().refused_identification, 0u);
      by_file[entry.path().filename()] += injected;
    }
  }
  EXPECT_GE(by_file.size(), 10u);
  for (const auto& [name, count] : by_file) EXPECT_GT(count, 0u) << name;
}

}  // namespace rrdma::link::wire_test
