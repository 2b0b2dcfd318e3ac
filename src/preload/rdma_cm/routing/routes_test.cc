// Routes on a device with a real GID table only. Tests in network namespaces cover the kernel's routing of
// foreign addresses.
#include "preload/rdma_cm/routing/routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

namespace rrdma::rdma_cm::routes_test {

const wire::Gid kV4 = wire::gid_of_ipv4({10, 77, 0, 1});
const wire::Gid kOtherV4 = wire::gid_of_ipv4({192, 168, 9, 9});  // of this host, on another interface
const wire::Gid kForeign = wire::gid_of_ipv4({10, 77, 0, 2});

wire::Gid gid_v6(std::uint8_t first, std::uint8_t second, std::uint8_t last) {
  wire::Gid gid;
  gid.octets[0] = first;
  gid.octets[1] = second;
  gid.octets[15] = last;
  return gid;
}
const wire::Gid kLinkLocal = gid_v6(0xfe, 0x80, 1);
const wire::Gid kV6 = gid_v6(0xfd, 0x77, 1);

class TableDevice final : public host::Device {
 public:
  explicit TableDevice(const std::vector<wire::Gid>& own) : own_(own) { identity_.interface_index = 5; }
  const host::DeviceIdentity& identity() const override { return identity_; }
  host::PortStatus port() const override { return {}; }
  std::vector<host::GidEntry> gids() const override {
    std::vector<host::GidEntry> entries;
    for (const wire::Gid& gid : own_)
      entries.push_back({.gid = gid, .index = static_cast<std::uint32_t>(entries.size()), .valid = true});
    return entries;
  }
  bool is_local_address(const wire::Gid& gid) const override {
    return gid == kOtherV4 || std::find(own_.begin(), own_.end(), gid) != own_.end();
  }
  void add_listener(host::DeviceListener&) override {}
  void remove_listener(host::DeviceListener&) override {}

 private:
  host::DeviceIdentity identity_{.name = "rrdma0", .interface = "eth0"};
  std::vector<wire::Gid> own_;
};

const TableDevice kDevice({kLinkLocal, kV4, kV6});
const DeviceList kDevices = {std::make_shared<TableDevice>(std::vector{kLinkLocal, kV4, kV6})};

IpAddress of(const wire::Gid& gid) { return address_of_gid(gid, 0); }

TEST(CheckSource, TakesWildcardsLoopbackAndTheDevicesOwn) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    EXPECT_TRUE(check_source(kDevices, wildcard_of(family)).ok());
    EXPECT_TRUE(check_source(kDevices, loopback_of(family)).ok());
  }
  EXPECT_TRUE(check_source(kDevices, of(kV4)).ok());
  EXPECT_TRUE(check_source(kDevices, of(kV6)).ok());
}

TEST(CheckSource, TellsForeignAddressesFromOtherInterfaces) {
  EXPECT_EQ(check_source(kDevices, of(kForeign)).error().error, EADDRNOTAVAIL);
  EXPECT_EQ(check_source(kDevices, of(kOtherV4)).error().error, ENODEV);
}

TEST(ResolveRoute, StaysWithinTheHostOnTheAddressThatIsNamed) {
  const auto route = resolve_route(kDevices, wildcard_of(Family::kIpv4), of(kV4));
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(route->local, kV4);
  EXPECT_EQ(route->remote, kV4);
  EXPECT_EQ(route->source.gid, kV4);
  EXPECT_EQ(route->interface_index, 5u);
}

TEST(ResolveRoute, BorrowsAGidOfTheFamilyForLoopbackAndOtherInterfaces) {
  for (const IpAddress& destination :
       {loopback_of(Family::kIpv4), wildcard_of(Family::kIpv4), of(kOtherV4)}) {
    const auto route = resolve_route(kDevices, wildcard_of(Family::kIpv4), destination);
    ASSERT_TRUE(route.ok()) << text_of(destination);
    EXPECT_EQ(route->local, kV4);
    EXPECT_EQ(route->remote, kV4);
  }
  const auto six = resolve_route(kDevices, wildcard_of(Family::kIpv6), loopback_of(Family::kIpv6));
  ASSERT_TRUE(six.ok());
  EXPECT_EQ(six->local, kV6);  // not the link-local one
}

// The kernel of these tests: every foreign address is on the requested link.
Result<KernelRoute, int> on_link(const IpAddress& source, const IpAddress& destination, std::uint32_t index) {
  return KernelRoute{source.is_any() ? of(kV4) : source, index, NextHop{destination, index, source}};
}
Result<KernelRoute, int> unreachable(const IpAddress&, const IpAddress&, std::uint32_t) {
  return Failure{EHOSTUNREACH};
}
Result<KernelRoute, int> by_another_interface(const IpAddress& source, const IpAddress& destination,
                                              std::uint32_t) {
  return KernelRoute{of(kOtherV4), 9, NextHop{destination, 9, source}};
}

TEST(ResolveRoute, AsksTheKernelWhetherASourceIsNamedOrNot) {
  for (const IpAddress& source : {of(kV4), wildcard_of(Family::kIpv4)}) {
    const auto refused = resolve_route(kDevices, source, of(kForeign), unreachable);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().error, EHOSTUNREACH);
    const auto route = resolve_route(kDevices, source, of(kForeign), on_link);
    ASSERT_TRUE(route.ok());
    ASSERT_TRUE(route->next_hop.has_value());
    EXPECT_EQ(route->next_hop->address.gid, kForeign);
    EXPECT_EQ(route->next_hop->interface_index, source.is_any() ? 0u : 5u);
    EXPECT_FALSE(route->no_device.has_value());
  }
}

TEST(ResolveRoute, TellsOfAMissingDeviceOnlyOnceThereIsARoute) {
  const auto route = resolve_route(kDevices, wildcard_of(Family::kIpv4), of(kForeign), by_another_interface);
  ASSERT_TRUE(route.ok());
  ASSERT_TRUE(route->no_device.has_value());
  EXPECT_EQ(route->no_device->error, ENODEV);
}

TEST(ResolveRoute, KeepsTheSourceThatTheProgramChose) {
  const auto route = resolve_route(kDevices, of(kV4), of(kForeign), on_link);
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(route->local, kV4);
  EXPECT_EQ(route->remote, kForeign);
  EXPECT_EQ(resolve_route(kDevices, of(kOtherV4), of(kForeign), on_link)->no_device->error, ENODEV);
  EXPECT_EQ(resolve_route(kDevices, loopback_of(Family::kIpv4), of(kForeign)).error().error, ENETUNREACH);
}

TEST(ResolveRoute, ReachesGroupsFromAnAddressOfTheirFamily) {
  const IpAddress group4 = of(wire::gid_of_ipv4({239, 1, 2, 3}));
  const IpAddress group6 = of(gid_v6(0xff, 0x15, 7));
  EXPECT_EQ(resolve_route(kDevices, wildcard_of(Family::kIpv4), group4)->local, kV4);
  EXPECT_EQ(resolve_route(kDevices, wildcard_of(Family::kIpv6), group6)->local, kV6);
  const DeviceList only_v6 = {std::make_shared<TableDevice>(std::vector{kLinkLocal, kV6})};
  EXPECT_EQ(resolve_route(only_v6, wildcard_of(Family::kIpv4), group4).error().error, EADDRNOTAVAIL);
}

TEST(ResolveRoute, FailsOnADeviceWithoutAddresses) {
  const DeviceList bare = {std::make_shared<TableDevice>(std::vector<wire::Gid>{})};
  EXPECT_EQ(resolve_route(bare, wildcard_of(Family::kIpv4), loopback_of(Family::kIpv4)).error().error,
            ENODEV);
}

TEST(ResolveRoute, TheAddressChoosesTheDevice) {
  const DeviceList both = {kDevices.front(), std::make_shared<TableDevice>(std::vector{kOtherV4})};
  EXPECT_EQ(&device_of(both, kOtherV4), both[1].get());
  EXPECT_EQ(&device_of(both, kForeign), both[0].get());
  EXPECT_TRUE(check_source(both, of(kOtherV4)).ok());
  const auto to_second = resolve_route(both, wildcard_of(Family::kIpv4), of(kOtherV4));
  ASSERT_TRUE(to_second.ok());
  EXPECT_EQ(to_second->local, kOtherV4);
  EXPECT_EQ(to_second->remote, kOtherV4);
  const auto across = resolve_route(both, of(kV4), of(kOtherV4));
  ASSERT_TRUE(across.ok());
  EXPECT_EQ(across->local, kV4);
  EXPECT_EQ(across->remote, kOtherV4);
}

TEST(GidIndexFor, TakesAnyForPeersOnThisHostOnly) {
  EXPECT_EQ(gid_index_for(kDevice, kV4, kForeign), 1u);
  EXPECT_EQ(gid_index_for(kDevice, kOtherV4, kV4), 1u);
  EXPECT_EQ(gid_index_for(kDevice, kOtherV4, kForeign), std::nullopt);
}

}  // namespace rrdma::rdma_cm::routes_test
