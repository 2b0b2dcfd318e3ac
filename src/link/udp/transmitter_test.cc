// Transmitter if the kernel refuses: segmentation refused, io_uring forbidden.
#include "link/udp/transmitter.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

#include "link/test_frames.h"
#include "link/udp/private_network.h"
#include "link/udp/udp_link.h"

namespace rrdma::link::transmitter_test {

namespace net = private_network;
using objects::Frame;
using objects::Path;

Path path_to_peer() {
  Path path;
  path.local = net::address_of(AF_INET, 1);
  path.remote = net::address_of(AF_INET, 2);
  return path;
}

Frame frame_of(const Path& path, std::uint32_t psn, const std::vector<std::uint8_t>& memory,
               std::size_t octets) {
  wire::TransportHeaders headers;
  headers.bth.opcode = wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kSendMiddle);
  headers.bth.psn = wire::Psn(psn);
  Frame frame;
  frame.path = &path;
  frame.header_octets = static_cast<std::uint8_t>(wire::emit_transport_headers(headers, frame.header.data()));
  frame.add_span(memory.data(), octets);
  return frame;
}

class RefusalTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ByUring, RefusalTest, testing::Bool());

TEST_P(RefusalTest, ARefusedTrainGoesPacketByPacketInOrder) {
  UdpConfig config;
  config.io_uring = GetParam();
  auto ipv4 = SendPorts::open(AF_INET, config, 1);
  ASSERT_TRUE(ipv4.ok());
  // The kernel refuses segmented sends without a checksum. This simulates a device that cannot segment.
  for (const SendPort& port : ipv4->ports())
    ASSERT_EQ(raw::setsockopt(port.segmenting.get(), SOL_SOCKET, SO_NO_CHECK, 1), 0);
  const SendPorts ipv6;
  UdpCounters counters;
  Transmitter transmitter(*ipv4, ipv6, config, counters);
  IpSockets slot;
  slot.v4 = net::slot_socket(AF_INET, 2);
  auto peer = UdpLink::open(std::span(&slot, 1), config);
  ASSERT_TRUE(peer.ok());

  const auto memory = test::random_octets(1024);
  const Path path = path_to_peer();
  std::vector<Frame> frames;
  // A single packet, a train, a single packet: the order must survive the refusal.
  for (std::uint32_t i = 0; i < 20; ++i)
    frames.push_back(frame_of(path, i, memory, i == 0 ? 300 : i == 19 ? 900 : 512));
  std::vector<const Frame*> pointers;
  for (const Frame& frame : frames) pointers.push_back(&frame);
  EXPECT_TRUE(transmitter.segments());
  EXPECT_TRUE(transmitter.transmit(pointers).empty());
  EXPECT_FALSE(transmitter.segments());
  EXPECT_EQ(counters.trains_refused, 1u);
  EXPECT_EQ(counters.packets_sent, 20u);
  EXPECT_EQ(counters.trains_sent, 0u);
  test::Collector collector;
  for (int i = 0; i < 100; ++i) (*peer)->poll(collector, Instant{i * 10'000}, 64);
  ASSERT_EQ(collector.packets.size(), 20u);
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_EQ(collector.packets[i].headers.bth.psn, wire::Psn(i));
  // From now on no segmented send is attempted.
  EXPECT_TRUE(transmitter.transmit(pointers).empty());
  EXPECT_EQ(counters.trains_refused, 1u);
  EXPECT_EQ(counters.packets_sent, 40u);
}

TEST(TransmitterTest, TwinsHaveOneNumberAndShareItWithNobody) {
  UdpConfig config;
  auto ports = SendPorts::open(AF_INET, config, 77);
  ASSERT_TRUE(ports.ok());
  for (const SendPort& port : ports->ports()) {
    EXPECT_GE(port.number, 0xc000);
    sockaddr_in bound{};
    for (const int fd : {port.plain.get(), port.segmenting.get()}) {
      socklen_t size = sizeof bound;
      ASSERT_EQ(raw::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size), 0);
      EXPECT_EQ(ntohs(bound.sin_port), port.number);
    }
    const OwnedFd intruder(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    (void)raw::setsockopt(intruder.get(), SOL_SOCKET, SO_REUSEPORT, 1);
    EXPECT_LT(raw::bind(intruder.get(), reinterpret_cast<const sockaddr*>(&bound), sizeof bound), 0);
  }
  // A second process that starts its search at the same place finds other ports.
  auto others = SendPorts::open(AF_INET, config, 77);
  ASSERT_TRUE(others.ok());
  for (const SendPort& port : others->ports()) {
    for (const SendPort& taken : ports->ports()) EXPECT_NE(port.number, taken.number);
  }
}

bool forbid_uring() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 425, 0, 1),  // io_uring_setup
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(filter), .filter = filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Sends bursts over four source ports, with trains and single packets. Returns a process exit code: 0 is
// success.
int exchange(bool expects_uring) {
  IpSockets near;
  near.v4 = net::slot_socket(AF_INET, 1);
  IpSockets far;
  far.v4 = net::slot_socket(AF_INET, 2);
  UdpConfig config;
  config.io_uring = true;
  auto a = UdpLink::open(std::span(&near, 1), config);
  auto b = UdpLink::open(std::span(&far, 1), config);
  if (!a || !b) return 10;
  if ((*a)->uses_uring() != expects_uring) return 11;
  const auto memory = test::random_octets(4096);
  std::vector<Path> paths(4, path_to_peer());
  for (std::size_t i = 0; i < 4; ++i) paths[i].source_port = static_cast<std::uint16_t>(0xc000 + i * 5000);
  test::Collector collector;
  std::size_t sent = 0;
  for (int round = 0; round < 200; ++round) {
    for (std::uint32_t i = 0; i < 40; ++i, ++sent) {
      if (!test::send(**a, paths[i / 10], {.psn = i, .octets = i % 10 < 5 ? 100 : i * 20}, memory.data()))
        return 12;
    }
    (*a)->flush({});
    for (int i = 0; i < 100 && collector.packets.size() < sent; ++i)
      (*b)->poll(collector, Instant{i * 10'000}, 64);
  }
  if (collector.packets.size() != sent) return 13;
  if (((*a)->tally().uring_calls != 0) != expects_uring) return 14;
  return (*b)->tally().refused_icrc == 0 ? 0 : 15;
}

TEST(TransmitterTest, UringCarriesBatchesOfSeveralSockets) {
  const OwnedFd socket(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int fd = socket.get();
  if (Uring::open(std::span(&fd, 1)) == nullptr) GTEST_SKIP() << "io_uring is not allowed here";
  EXPECT_EQ(exchange(true), 0);
}

TEST(TransmitterTest, WhereUringIsForbiddenPlainCallsDo) {
  const pid_t child = fork();
  if (child == 0) _exit(forbid_uring() ? exchange(false) : 9);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace rrdma::link::transmitter_test
