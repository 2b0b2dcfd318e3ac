#include "preload/verbs/device/gid_mac.h"

#include <gtest/gtest.h>

namespace rrdma::verbs::gid_mac_test {

wire::Gid gid_of(std::array<std::uint8_t, 16> octets) {
  wire::Gid gid;
  std::copy(octets.begin(), octets.end(), gid.octets.begin());
  return gid;
}
wire::Gid ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
  return gid_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d});
}

TEST(GidMac, GroupsOfIpv4KeepTwentyThreeBits) {
  EXPECT_EQ(multicast_mac(ipv4(239, 129, 2, 3)), (Mac{0x01, 0x00, 0x5e, 0x01, 2, 3}));
}

TEST(GidMac, GroupsOfIpv6KeepThirtyTwo) {
  const auto gid = gid_of({0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 2, 3, 4});
  EXPECT_EQ(multicast_mac(gid), (Mac{0x33, 0x33, 0x81, 2, 3, 4}));
}

TEST(GidMac, OneHostHasNoGroupAddress) {
  EXPECT_EQ(multicast_mac(ipv4(10, 0, 0, 1)), std::nullopt);
  EXPECT_EQ(multicast_mac(gid_of({0xfe, 0x80})), std::nullopt);
}

TEST(GidMac, LinkLocalAddressesOftenNameTheirs) {
  const auto gid = gid_of({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x77, 0, 0xff, 0xfe, 0, 0, 1});
  EXPECT_EQ(embedded_mac(gid), (Mac{0x02, 0x77, 0, 0, 0, 1}));
}

TEST(GidMac, RandomAddressesNameNone) {
  EXPECT_EQ(embedded_mac(gid_of({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8})), std::nullopt);
  EXPECT_EQ(embedded_mac(ipv4(10, 0, 0, 1)), std::nullopt);
}

}  // namespace rrdma::verbs::gid_mac_test
