#include "preload/rdma_cm/address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/ib.h>
#include <netinet/in.h>

#include <array>
#include <cstring>

namespace rrdma::rdma_cm::address_test {

sockaddr_in v4(const char* text, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, text, &address.sin_addr), 1);
  return address;
}

sockaddr_in6 v6(const char* text, std::uint16_t port, std::uint32_t scope = 0) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_scope_id = scope;
  EXPECT_EQ(::inet_pton(AF_INET6, text, &address.sin6_addr), 1);
  return address;
}

template <typename T>
void expect_round_trip(const T& from) {
  const auto address = address_of(&from, sizeof from);
  ASSERT_TRUE(address.has_value());
  sockaddr_storage to;
  std::memset(&to, 0xff, sizeof to);
  ASSERT_EQ(emit_sockaddr(*address, &to), sizeof from);
  EXPECT_EQ(std::memcmp(&to, &from, sizeof from), 0) << text_of(*address);
}

TEST(IpAddress, KeepsAddressesOfBothFamilies) {
  expect_round_trip(v4("10.1.2.3", 7174));
  expect_round_trip(v4("0.0.0.0", 1));
  expect_round_trip(v4("239.1.2.3", 0));
  expect_round_trip(v6("fd77::1", 65535));
  expect_round_trip(v6("::", 7174));
  expect_round_trip(v6("fe80::1", 7, 3));
}

TEST(IpAddress, TellsWildcardsApartByTheirFamily) {
  const sockaddr_in any4 = v4("0.0.0.0", 9);
  const sockaddr_in6 any6 = v6("::", 9);
  EXPECT_EQ(address_of(&any4, sizeof any4)->family, Family::kIpv4);
  EXPECT_EQ(address_of(&any6, sizeof any6)->family, Family::kIpv6);
  EXPECT_TRUE(address_of(&any4, sizeof any4)->is_any());
  EXPECT_TRUE(address_of(&any6, sizeof any6)->is_any());
  EXPECT_FALSE(wildcard_of(Family::kIpv4).is_multicast());
}

TEST(IpAddress, NamesItsKind) {
  const auto kind_of = [](const auto& from) { return *address_of(&from, sizeof from); };
  EXPECT_TRUE(kind_of(v4("127.9.9.9", 0)).is_loopback());
  EXPECT_TRUE(kind_of(v6("::1", 0)).is_loopback());
  EXPECT_FALSE(kind_of(v4("128.0.0.1", 0)).is_loopback());
  EXPECT_TRUE(kind_of(v6("fe80::1", 0)).is_link_local());
  EXPECT_TRUE(kind_of(v6("febf::1", 0)).is_link_local());
  EXPECT_FALSE(kind_of(v6("fec0::1", 0)).is_link_local());
  EXPECT_TRUE(kind_of(v4("239.1.2.3", 0)).is_multicast());
  EXPECT_TRUE(kind_of(v6("ff15::77", 0)).is_multicast());
  EXPECT_FALSE(kind_of(v4("10.0.0.1", 0)).is_multicast());
}

TEST(IpAddress, RefusesWhatIsTooShortOrUnknown) {
  const sockaddr_in four = v4("10.1.2.3", 1);
  const sockaddr_in6 six = v6("fd77::1", 1);
  for (std::size_t size = 0; size < sizeof four; ++size)
    EXPECT_FALSE(address_of(&four, size).has_value()) << size;
  for (std::size_t size = 0; size < sizeof six; ++size)
    EXPECT_FALSE(address_of(&six, size).has_value()) << size;
  sockaddr_storage local{};
  local.ss_family = AF_UNIX;
  EXPECT_FALSE(address_of(&local, sizeof local).has_value());
}

TEST(IpAddress, KnowsTheWildcardOfInfiniBand) {
  sockaddr_ib from{};
  from.sib_family = AF_IB;
  const auto address = address_of(&from, sizeof from);
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->family, Family::kIb);
  EXPECT_TRUE(address->is_any());
}

TEST(IpAddress, WritesItselfForPeople) {
  EXPECT_EQ(text_of(loopback_of(Family::kIpv4)), "127.0.0.1:0");
  EXPECT_EQ(text_of(wildcard_of(Family::kIpv4)), "0.0.0.0:0");
  const sockaddr_in6 six = v6("fd77::1", 7174);
  EXPECT_EQ(text_of(*address_of(&six, sizeof six)), "[fd77::1]:7174");
  EXPECT_EQ(text_of(address_of_gid(wire::gid_of_ipv4({10, 0, 0, 1}), 3)), "10.0.0.1:3");
}

}  // namespace rrdma::rdma_cm::address_test
