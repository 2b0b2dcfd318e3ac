// Paths that lead into our tree, and paths that stay the machine's.
#include "preload/files/path_rule.h"

#include <gtest/gtest.h>

namespace rrdma::files::path_rule_test {

PathRule rule(const KernelNames& kernel = {}) {
  DeviceView view;
  view.identity.name = "rrdma0";
  view.verbs_file = "uverbs2";
  return PathRule({view}, kernel);
}

TEST(PathRule, OurNamesAreOurs) {
  for (const char* path :
       {"/sys/class/infiniband/rrdma0", "/sys/class/infiniband//rrdma0/ports/1/gids/0",
        "/sys/class/infiniband_verbs/uverbs2/ibdev", "/sys/class/infiniband_verbs/abi_version",
        "/sys/devices/virtual/infiniband/rrdma0/node_guid", "/dev/infiniband/uverbs2",
        "/dev/infiniband/rdma_cm"}) {
    EXPECT_TRUE(PathRule::may_match(path)) << path;
    EXPECT_TRUE(rule().matches(path)) << path;
  }
}

TEST(PathRule, FoldersThatListDevicesAreOurs) {
  for (const char* path :
       {"/sys/class/infiniband", "/sys/class/infiniband/", "/sys/class/infiniband_verbs", "/dev/infiniband",
        "/dev/infiniband/", "/sys/devices/virtual/infiniband", "/sys/devices/virtual/infiniband_verbs"}) {
    EXPECT_TRUE(rule().matches(path)) << path;
  }
}

TEST(PathRule, EverythingElseIsTheMachines) {
  for (const char* path :
       {"", "/", "/sys", "/sys/class", "/sys/class/infiniband_mad", "/sys/class/infiniband_cm/x",
        "/sys/class/infiniband/mlx5_0/ports", "/sys/class/infiniband/rrdma01",
        "/sys/class/infiniband_verbs/uverbs0", "/sys/devices/virtual", "/sys/devices/virtual/infiniband/rxe0",
        "/dev/infiniband/umad0", "/dev/infinibandx", "sys/class/infiniband/rrdma0",
        "/tmp/sys/class/infiniband/rrdma0"}) {
    EXPECT_FALSE(rule().matches(path)) << path;
  }
}

TEST(PathRule, PlacesOfPciDevicesAreOursWhereADeviceHasOne) {
  DeviceView view;
  view.identity.name = "rrdma0";
  view.identity.properties.pci = "0000:81:00.0";
  const PathRule own({view}, {});
  for (const char* path :
       {"/sys/devices/pci0000:80", "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/class",
        "/sys/class/pci_bus/0000:81/../../0000:81:00.0", "/sys/bus/pci/devices/0000:81:00.0/vendor"}) {
    EXPECT_TRUE(PathRule::may_match(path)) << path;
    EXPECT_TRUE(own.matches(path)) << path;
    EXPECT_FALSE(rule().matches(path)) << path;
  }
  EXPECT_FALSE(own.matches("/sys/devices/pci0000:00/0000:00:01.0/class"));
  EXPECT_FALSE(own.matches("/sys/bus/pci/devices/0000:00:01.0"));
  view.pci_root_is_machines = true;
  EXPECT_FALSE(PathRule({view}, {}).matches("/sys/devices/pci0000:80/0000:80:02.0/class"));
  EXPECT_TRUE(PathRule({view}, {}).matches("/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/class"));
}

TEST(PathRule, WhatTheKernelHasItself) {
  const PathRule beside = rule({.verbs_files = {"abi_version"}, .device_files = {"rdma_cm"}});
  EXPECT_FALSE(beside.matches("/sys/class/infiniband_verbs/abi_version"));
  EXPECT_FALSE(beside.matches("/dev/infiniband/rdma_cm"));
  EXPECT_TRUE(beside.matches("/dev/infiniband/uverbs2"));
}

TEST(PathRule, WhatTheKernelHasIsHiddenWhereOnlyOursIsWanted) {
  const PathRule only = rule({.hidden = true});
  EXPECT_TRUE(only.matches("/sys/class/infiniband/mlx5_0/ports"));
  EXPECT_TRUE(only.matches("/sys/class/infiniband_verbs/uverbs0"));
  EXPECT_TRUE(only.matches("/dev/infiniband/umad0"));
  EXPECT_TRUE(only.matches("/dev/infiniband/rdma_cm"));
  EXPECT_FALSE(only.matches("/sys/class/infiniband_mad"));
}

}  // namespace rrdma::files::path_rule_test
