#include "daemon/qp1/cm_ports.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

namespace rrdma::daemon::cm_ports_test {

constexpr auto kTcp = wire::PortSpace::kTcp;
constexpr auto kUdp = wire::PortSpace::kUdp;
const wire::Gid kHere = wire::gid_of_ipv4({10, 0, 0, 1});
const wire::Gid kThere = wire::gid_of_ipv4({10, 0, 0, 2});

PortClaim v4(CmOwner owner, std::uint16_t port, const wire::Gid& address = {}) {
  return {.owner = owner, .port_space = kTcp, .port = port, .address = address};
}

PortClaim v6(CmOwner owner, std::uint16_t port, bool family_only) {
  return {.owner = owner,
          .port_space = kTcp,
          .port = port,
          .family = control::CmFamily::kIpv6,
          .family_only = family_only};
}

class PortTableTest : public ::testing::Test {
 protected:
  int error_of(const PortClaim& claim) {
    const auto port = ports_.bind(claim);
    return port.ok() ? 0 : port.error();
  }
  PortTable ports_{KeySource(7)};
};

TEST_F(PortTableTest, GivesAPortToOneAddressOnce) {
  EXPECT_EQ(error_of(v4(1, 7000, kHere)), 0);
  EXPECT_EQ(error_of(v4(2, 7000, kHere)), EADDRINUSE);
  EXPECT_EQ(error_of(v4(3, 7000, kThere)), 0);
  EXPECT_EQ(error_of(v4(4, 7000)), EADDRINUSE);  // the wildcard overlaps all addresses
  EXPECT_EQ(error_of(v4(1, 7001)), EINVAL);      // already bound
}

TEST_F(PortTableTest, KeepsPortSpacesApart) {
  EXPECT_EQ(error_of(v4(1, 7000)), 0);
  PortClaim udp = v4(2, 7000);
  udp.port_space = kUdp;
  EXPECT_EQ(error_of(udp), 0);
}

TEST_F(PortTableTest, LetsTheWildcardOfIpv6TakeIpv4TooUnlessItMustNot) {
  EXPECT_EQ(error_of(v6(1, 7000, false)), 0);
  EXPECT_EQ(error_of(v4(2, 7000)), EADDRINUSE);
  EXPECT_EQ(error_of(v4(3, 7000, kHere)), EADDRINUSE);
  EXPECT_EQ(error_of(v6(4, 7001, true)), 0);
  EXPECT_EQ(error_of(v4(5, 7001)), 0);
}

TEST_F(PortTableTest, SharesAPortWhereBothAllowItButNotListening) {
  PortClaim one = v4(1, 7000), other = v4(2, 7000);
  one.reuse = true;
  EXPECT_EQ(error_of(one), 0);
  EXPECT_EQ(error_of(other), EADDRINUSE);
  other.reuse = true;
  EXPECT_EQ(error_of(other), 0);
  EXPECT_TRUE(ports_.listen(1).ok());
  EXPECT_EQ(ports_.listen(2).error(), EADDRINUSE);
  EXPECT_EQ(ports_.listen(1).error(), EINVAL);
  EXPECT_EQ(ports_.listen(9).error(), EINVAL);
}

TEST_F(PortTableTest, IsFreeAgainAtOnce) {
  EXPECT_EQ(error_of(v4(1, 7000)), 0);
  ports_.release(1);
  EXPECT_EQ(ports_.size(), 0u);
  EXPECT_EQ(ports_.find(1), nullptr);
  EXPECT_EQ(error_of(v4(2, 7000)), 0);
  ports_.release(77);  // belongs to no id
}

TEST_F(PortTableTest, GivesOutEveryEphemeralPortOnceAndThenNone) {
  std::set<std::uint16_t> seen;
  CmOwner owner = 0;
  for (;;) {
    const auto port = ports_.bind(v4(++owner, 0));
    if (!port.ok()) {
      EXPECT_EQ(port.error(), EADDRNOTAVAIL);
      break;
    }
    EXPECT_GE(*port, 32768);
    EXPECT_TRUE(seen.insert(*port).second);
  }
  EXPECT_GT(seen.size(), 20'000u);
  // Released ports are given out again.
  const std::uint16_t given_up = ports_.find(1)->port;
  ports_.release(1);
  const auto again = ports_.bind(v4(++owner, 0));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, given_up);
}

}  // namespace rrdma::daemon::cm_ports_test
