// The placement of devices when a plan requests several.
#include "host/device_links.h"

#include <gtest/gtest.h>

namespace rrdma::host::device_links_test {

const wire::Gid kLoopback = wire::gid_of_ipv4({127, 0, 0, 1});

Interface loopback(const std::vector<wire::Gid>& more = {}) {
  Interface lo{.name = "lo", .index = 1, .mtu = 65536, .running = true, .loopback = true};
  lo.addresses.push_back({.gid = kLoopback, .prefix_length = 8});
  for (const wire::Gid& gid : more) lo.addresses.push_back({.gid = gid, .prefix_length = 32});
  return lo;
}

Interface ethernet(const char* name, std::uint32_t index, std::uint8_t last, bool default_route = false) {
  return {.name = name,
          .index = index,
          .mtu = 1500,
          .running = true,
          .default_route = default_route,
          .addresses = {{.gid = wire::gid_of_ipv4({10, 0, 0, last}), .prefix_length = 24}}};
}

TEST(PlaceDevices, WithoutAPlanThereIsOne) {
  EXPECT_EQ(place_devices({loopback(), ethernet("eth0", 2, 1, true)}, {}, "").size(), 1u);
}

TEST(PlaceDevices, InterfacesComeBeforeTheLoopback) {
  const std::vector<Interface> all = {loopback(), ethernet("eth0", 2, 1, true), ethernet("eth1", 3, 2)};
  const auto placed = place_devices(all, {}, "", 4);
  ASSERT_EQ(placed.size(), 4u);
  EXPECT_EQ(placed[0].interface->name, "eth0");
  EXPECT_EQ(placed[1].interface->name, "eth1");
  EXPECT_TRUE(placed[1].addresses.empty());
  EXPECT_EQ(placed[2].interface->name, "lo");
  EXPECT_EQ(placed[2].addresses, std::vector{wire::gid_of_ipv4({127, 0, 0, 3})});
  EXPECT_EQ(placed[3].addresses, std::vector{wire::gid_of_ipv4({127, 0, 0, 4})});
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(placed[i].number, i);
}

TEST(PlaceDevices, OnTheLoopbackAloneEachHasItsOwn) {
  const PrivateAddresses second = private_addresses(1);
  const wire::Gid users = wire::gid_of_ipv4({192, 168, 7, 7});
  const std::vector<Interface> all = {loopback({users, second.ipv4, second.ipv6})};
  const auto placed = place_devices(all, {}, "", 2);
  ASSERT_EQ(placed.size(), 2u);
  EXPECT_EQ(placed[0].addresses, (std::vector{kLoopback, users}));
  EXPECT_EQ(placed[1].addresses, (std::vector{second.ipv4, second.ipv6}));
}

TEST(PlaceDevices, AnInterfaceThatIsDownIsNotTaken) {
  std::vector<Interface> all = {loopback(), ethernet("eth0", 2, 1, true), ethernet("eth1", 3, 2)};
  all[2].running = false;
  EXPECT_EQ(place_devices(all, {}, "", 2)[1].interface->name, "lo");
}

}  // namespace rrdma::host::device_links_test
