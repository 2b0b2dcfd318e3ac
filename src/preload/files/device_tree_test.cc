// The contents of a device's files.
#include "preload/files/device_tree.h"

#include <gtest/gtest.h>

#include <map>

namespace rrdma::files::device_tree_test {

DeviceView example() {
  DeviceView view;
  view.identity = {.name = "rrdma0",
                   .interface = "eth7",
                   .interface_index = 3,
                   .guid = 0x0252'52ff'fe44'4d41,
                   .device_index = 0};
  view.port = {.up = true, .interface_mtu = 1500, .mtu_code = 3, .speed_mbps = 25'000};
  wire::Gid gid;
  gid.octets = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1};
  view.gids = {{.gid = {}, .index = 0, .valid = false}, {.gid = gid, .index = 1, .valid = true}};
  view.verbs_file = "uverbs2";
  return view;
}

std::map<std::string, TreeEntry> tree_of(const KernelNames& kernel, const DeviceView& view = example()) {
  std::map<std::string, TreeEntry> tree;
  for (const TreeEntry& entry : device_tree({view}, kernel)) {
    EXPECT_TRUE(tree.emplace(entry.path, entry).second) << entry.path << " is there twice";
  }
  return tree;
}

TEST(DeviceTree, PortAndGidsReadAsTheKernelWritesThem) {
  auto tree = tree_of({});
  const std::string device = "sys/devices/virtual/infiniband/rrdma0/";
  EXPECT_EQ(tree[device + "node_guid"].content, "0252:52ff:fe44:4d41\n");
  EXPECT_EQ(tree[device + "ports/1/state"].content, "4: ACTIVE\n");
  EXPECT_EQ(tree[device + "ports/1/rate"].content, "25 Gb/sec\n");
  EXPECT_EQ(tree[device + "ports/1/link_layer"].content, "Ethernet\n");
  EXPECT_EQ(tree[device + "ports/1/gids/1"].content, "0000:0000:0000:0000:0000:ffff:c000:0201\n");
  EXPECT_EQ(tree[device + "ports/1/gid_attrs/types/1"].content, "RoCE v2\n");
  EXPECT_EQ(tree[device + "ports/1/gid_attrs/ndevs/1"].content, "eth7\n");
  EXPECT_EQ(tree.count(device + "ports/1/gids/0"), 0u) << "an empty entry of the table has no file";
  EXPECT_EQ(tree[device + "device/net/eth7"].kind, TreeEntry::Kind::kLink);
  EXPECT_EQ(tree[device + "device/numa_node"].content, "-1\n");
}

TEST(DeviceTree, LidIsZeroUnlessThePortHasOne) {
  DeviceView view = example();
  const std::string file = "sys/devices/virtual/infiniband/rrdma0/ports/1/lid";
  EXPECT_EQ(tree_of({}, view)[file].content, "0x0\n");
  view.lid = 0x0201;
  EXPECT_EQ(tree_of({}, view)[file].content, "0x201\n");
}

TEST(DeviceTree, ClassesLeadToTheDevice) {
  auto tree = tree_of({});
  EXPECT_EQ(tree["sys/class/infiniband/rrdma0"].content, "../../devices/virtual/infiniband/rrdma0");
  EXPECT_EQ(tree["sys/class/infiniband_verbs/uverbs2"].content,
            "../../devices/virtual/infiniband_verbs/uverbs2");
  EXPECT_EQ(tree["sys/devices/virtual/infiniband_verbs/uverbs2/ibdev"].content, "rrdma0\n");
  EXPECT_EQ(tree["dev/infiniband/uverbs2"].content, "/dev/null");
  EXPECT_EQ(tree["dev/infiniband/rdma_cm"].content, "/dev/null");
}

TEST(DeviceTree, PciAddressIsAPlaceInTheTree) {
  DeviceView view = example();
  view.identity.properties.pci = "0000:81:00.0";
  view.identity.properties.vendor = 0x15b3;
  view.identity.properties.part = 4129;
  view.identity.properties.firmware = "22.36.1010";
  view.numa_node = "1";
  auto tree = tree_of({}, view);
  const std::string place = "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/";
  EXPECT_EQ(tree["sys/class/infiniband/rrdma0"].content,
            "../../devices/pci0000:80/0000:80:01.0/0000:81:00.0/infiniband/rrdma0");
  EXPECT_EQ(tree[place + "infiniband/rrdma0/device"].content, "../..");
  EXPECT_EQ(tree[place + "infiniband/rrdma0/fw_ver"].content, "22.36.1010\n");
  EXPECT_EQ(tree[place + "infiniband/rrdma0/subsystem"].content, "../../../../../../class/infiniband");
  EXPECT_EQ(tree[place + "class"].content, "0x020000\n");
  EXPECT_EQ(tree[place + "vendor"].content, "0x15b3\n");
  EXPECT_EQ(tree[place + "device"].content, "0x1021\n");
  EXPECT_EQ(tree[place + "numa_node"].content, "1\n");
  EXPECT_EQ(tree["sys/bus/pci/devices/0000:81:00.0"].content,
            "../../../devices/pci0000:80/0000:80:01.0/0000:81:00.0");
  EXPECT_EQ(tree["sys/class/pci_bus/0000:81"].content,
            "../../devices/pci0000:80/0000:80:01.0/pci_bus/0000:81");
}

TEST(DeviceTree, DevicesOfTheMachineStandBesideOurs) {
  auto tree = tree_of({.devices = {"mlx5_0"},
                       .verbs_files = {"abi_version", "uverbs0"},
                       .device_files = {"rdma_cm", "uverbs0"}});
  EXPECT_EQ(tree["sys/class/infiniband/mlx5_0"].content, "/sys/class/infiniband/mlx5_0");
  EXPECT_EQ(tree["sys/class/infiniband_verbs/abi_version"].content,
            "/sys/class/infiniband_verbs/abi_version");
  EXPECT_EQ(tree["dev/infiniband/rdma_cm"].content, "/dev/infiniband/rdma_cm");
  EXPECT_EQ(tree["dev/infiniband/uverbs0"].content, "/dev/infiniband/uverbs0");
  EXPECT_EQ(tree.count("sys/class/infiniband/rrdma0"), 1u);
}

TEST(DeviceTree, NameThatTheMachineHasTooIsOurs) {
  auto tree = tree_of({.devices = {"rrdma0"}});
  EXPECT_EQ(tree["sys/class/infiniband/rrdma0"].content, "../../devices/virtual/infiniband/rrdma0");
}

}  // namespace rrdma::files::device_tree_test
