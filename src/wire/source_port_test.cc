// Source ports compared with those that the Linux kernel sent for the same QPNs.
#include "wire/source_port.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace rrdma::wire::source_port_test {

TEST(SourcePort, FoldsAFlowLabel) {
  EXPECT_EQ(source_port_of_flow_label(0), 0xc000);
  EXPECT_EQ(source_port_of_flow_label(0x3fff), 0xffff);
  EXPECT_EQ(source_port_of_flow_label(0xfc000), 0xc03f);
  EXPECT_EQ(source_port_of_flow_label(0xfffff), 0xffff & ~0x3f);
}

TEST(SourcePort, StaysInTheDynamicRangeAndIsTheSameAtBothEnds) {
  Prng prng(1);
  for (int round = 0; round < 10000; ++round) {
    const Qpn local(static_cast<std::uint32_t>(prng.next()));
    const Qpn remote(static_cast<std::uint32_t>(prng.next()));
    EXPECT_GE(source_port_of_connection(0, local, remote), kSourcePortMin);
    EXPECT_EQ(source_port_of_connection(0, local, remote), source_port_of_connection(0, remote, local));
    EXPECT_GE(source_port_of_datagrams(local), kSourcePortMin);
    const auto label = static_cast<std::uint32_t>(prng.between(1, 0xfffff));
    EXPECT_EQ(source_port_of_connection(label, local, remote), source_port_of_flow_label(label));
  }
}

TEST(SourcePort, OfAConnectionIsThatOfTheKernel) {
  EXPECT_EQ(source_port_of_connection(0, Qpn(0x58), Qpn(0x56)), 0xdd90);
  EXPECT_EQ(source_port_of_connection(0, Qpn(0x77), Qpn(0x74)), 0xf5ec);
  EXPECT_EQ(source_port_of_connection(0, Qpn(0x11), Qpn(0x11)), 0xc121);
}

TEST(SourcePort, OfDatagramsIsThatOfTheKernel) {
  EXPECT_EQ(source_port_of_datagrams(Qpn(0x5d)), 0xe176);
  EXPECT_EQ(source_port_of_datagrams(Qpn(0x5b)), 0xf091);
  EXPECT_EQ(source_port_of_datagrams(Qpn(0x76)), 0xc49b);
}

// hash_32(1, 14) = 0x61c88647 >> 18 = 0x1872: the port of every MAD of the kernel's rxe.
TEST(SourcePort, OfQp1IsThatOfTheKernel) { EXPECT_EQ(source_port_of_datagrams(kGeneralServicesQpn), 0xd872); }

}  // namespace rrdma::wire::source_port_test
