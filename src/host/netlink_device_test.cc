// A device that follows hand-made snapshots of interfaces.
#include "host/netlink_device.h"

#include <gtest/gtest.h>

#include <utility>

namespace rrdma::host::netlink_device_test {

const wire::Gid kFirst = wire::gid_of_ipv4({10, 0, 0, 1});
const wire::Gid kSecond = wire::gid_of_ipv4({10, 0, 0, 2});
const wire::Gid kThird = wire::gid_of_ipv4({10, 0, 0, 3});

Interface loopback() {
  return {.name = "lo",
          .index = 1,
          .mtu = 65536,
          .running = true,
          .loopback = true,
          .addresses = {{.gid = wire::gid_of_ipv4({127, 0, 0, 1}), .prefix_length = 8}}};
}

Interface ethernet(const std::vector<wire::Gid>& gids, std::uint8_t mac = 1,
                   std::uint8_t prefix_length = 24) {
  Interface made{.name = "eth0", .index = 2, .mtu = 1500, .running = true, .mac = {2, 0, 0, 0, 0, mac}};
  for (const wire::Gid& gid : gids) made.addresses.push_back({.gid = gid, .prefix_length = prefix_length});
  return made;
}

// Queries the device inside the notification, as the connection manager does.
class Witness final : public DeviceListener {
 public:
  explicit Witness(Device& device) : device_(device) { device_.add_listener(*this); }
  ~Witness() override { device_.remove_listener(*this); }
  void on_device_event(DeviceEvent event) override {
    told_.push_back(event);
    gids_seen_ = device_.gids();
    (void)device_.is_local_address(kFirst);
    (void)device_.port();
  }
  std::vector<DeviceEvent> take() { return std::exchange(told_, {}); }
  [[nodiscard]] const std::vector<GidEntry>& gids_seen() const { return gids_seen_; }

 private:
  Device& device_;
  std::vector<DeviceEvent> told_;
  std::vector<GidEntry> gids_seen_;
};

class NetlinkDeviceTest : public ::testing::Test {
 protected:
  NetlinkDevice device_{identify(ethernet({}), 0), {loopback(), ethernet({kFirst, kSecond})}};
  Witness witness_{device_};
  using Events = std::vector<DeviceEvent>;
};

TEST_F(NetlinkDeviceTest, SaysNothingWhileNothingChanges) {
  device_.refresh({loopback(), ethernet({kFirst, kSecond})});
  EXPECT_TRUE(witness_.take().empty());
}

TEST_F(NetlinkDeviceTest, TellsOfAddressesAndShowsThemAlready) {
  device_.refresh({loopback(), ethernet({kSecond})});
  EXPECT_EQ(witness_.take(), Events{DeviceEvent::kGidChange});
  ASSERT_EQ(witness_.gids_seen().size(), 2u);
  EXPECT_FALSE(witness_.gids_seen()[0].valid);
  EXPECT_TRUE(witness_.gids_seen()[1].valid);
  EXPECT_FALSE(device_.is_local_address(kFirst));
}

TEST_F(NetlinkDeviceTest, KeepsIndicesWhileTheirAddressStays) {
  device_.refresh({loopback(), ethernet({kSecond})});
  device_.refresh({loopback(), ethernet({kSecond, kThird})});
  const auto gids = device_.gids();
  EXPECT_EQ(gids[0].gid, kThird);
  EXPECT_EQ(gids[1].gid, kSecond);
}

// A fresh interface: its link-local address appears after the one that the administrator assigned.
TEST(NetlinkDeviceGids, IndexZeroIsTheLinkLocalOneFromTheStart) {
  wire::Gid link_local;
  link_local.octets = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
  Interface fresh = ethernet({kFirst});
  fresh.link_local = true;
  NetlinkDevice device(identify(fresh, 0), {loopback(), fresh});
  ASSERT_EQ(device.gids().size(), 2u);
  EXPECT_FALSE(device.gids()[0].valid);
  EXPECT_EQ(device.gids()[1].gid, kFirst);
  fresh.addresses.insert(fresh.addresses.begin(), {.gid = link_local, .prefix_length = 64});
  device.refresh({loopback(), fresh});
  EXPECT_TRUE(device.gids()[0].valid);
  EXPECT_EQ(device.gids()[0].gid, link_local);
  EXPECT_EQ(device.gids()[1].gid, kFirst);
  // The address disappears with the link and returns; its index stays reserved.
  Interface down = ethernet({kFirst, kSecond});
  down.link_local = true;
  device.refresh({loopback(), down});
  EXPECT_FALSE(device.gids()[0].valid);
  EXPECT_EQ(device.gids()[2].gid, kSecond);
}

TEST_F(NetlinkDeviceTest, KnowsTheSubnetAlsoWhenOnlyThatChanges) {
  EXPECT_EQ(device_.gids()[0].prefix_length, 24);
  device_.refresh({loopback(), ethernet({kFirst, kSecond}, 1, 16)});
  EXPECT_EQ(device_.gids()[0].prefix_length, 16);
  EXPECT_TRUE(witness_.take().empty()) << "no GID has changed";
}

TEST_F(NetlinkDeviceTest, TellsOfAnotherHardwareAddress) {
  device_.refresh({loopback(), ethernet({kFirst, kSecond}, 9)});
  EXPECT_EQ(witness_.take(), Events{DeviceEvent::kHardwareAddressChange});
}

TEST_F(NetlinkDeviceTest, TellsOfAPortThatGoesDownAndComesBack) {
  Interface down = ethernet({kFirst, kSecond});
  down.running = false;
  device_.refresh({loopback(), down});
  EXPECT_EQ(witness_.take(), Events{DeviceEvent::kPortError});
  device_.refresh({loopback(), ethernet({kFirst, kSecond})});
  EXPECT_EQ(witness_.take(), Events{DeviceEvent::kPortActive});
}

TEST_F(NetlinkDeviceTest, TellsOfItsRemovalOnce) {
  device_.refresh({loopback()});
  EXPECT_EQ(witness_.take(),
            (Events{DeviceEvent::kGidChange, DeviceEvent::kPortError, DeviceEvent::kRemoved}));
  device_.refresh({loopback()});
  EXPECT_TRUE(witness_.take().empty());
}

TEST_F(NetlinkDeviceTest, TakesAFailureOfNetlinkForNoRemoval) {
  device_.refresh({});
  EXPECT_TRUE(witness_.take().empty());
  EXPECT_TRUE(device_.gids()[0].valid);
}

}  // namespace rrdma::host::netlink_device_test
