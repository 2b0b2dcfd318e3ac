#include "host/device_plan.h"

#include <gtest/gtest.h>

namespace rrdma::host::device_plan_test {

TEST(DevicePlan, NothingIsNoPlan) {
  const auto plan = parse_device_plan("");
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->count, 0u);
  EXPECT_FALSE(plan->of(3).speed_mbps.has_value());
}

TEST(DevicePlan, CountsAndDescribes) {
  const auto plan = parse_device_plan(
      "4;rrdma1:speed=200G,numa=1,pci=0000:81:00.0,fw=22.36.1010,mtu=1024,vendor=0x02c9,part=4129;rrdma3:max_"
      "qp=16");
  ASSERT_TRUE(plan.ok()) << plan.error();
  EXPECT_EQ(plan->count, 4u);
  const DeviceProperties& one = plan->of(1);
  EXPECT_EQ(one.speed_mbps, 200'000u);
  EXPECT_EQ(one.numa_node, 1);
  EXPECT_EQ(one.pci, "0000:81:00.0");
  EXPECT_EQ(one.firmware, "22.36.1010");
  EXPECT_EQ(one.mtu, 1024u);
  EXPECT_EQ(one.vendor, 0x2c9u);
  EXPECT_EQ(one.part, 4129u);
  EXPECT_EQ(plan->of(3).limit("max_qp", 65000), 16u);
  EXPECT_EQ(plan->of(3).limit("max_cq", 65000), 65000u);
}

TEST(DevicePlan, LimitsOnlyLower) {
  const auto plan = parse_device_plan("1;rrdma0:max_qp=100000");
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->of(0).limit("max_qp", 65000), 65000u);
}

TEST(DevicePlan, RefusesWhatItDoesNotKnow) {
  for (const char* text :
       {"x", "17", "4;", "4;rrdma1", "4;mlx5_0:speed=1G", "4;rrdma16:speed=1G", "4;rrdma1:", "4;rrdma1:speed",
        "4;rrdma1:speed=0G", "4;rrdma1:speed=fast", "4;rrdma1:width=2", "4;rrdma1:mtu=1500",
        "4;rrdma1:pci=81:00.0", "4;rrdma1:pci=0000:8G:00.0", "4;rrdma1:max_qp=0", "4;rrdma1:colour=red",
        "4;rrdma1:fw=", "4;rrdma1:speed=1G,", "4;rrdma1:vendor=0x1000000"}) {
    const auto plan = parse_device_plan(text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_TRUE(plan.error().ends_with(".")) << plan.error();
  }
}

}  // namespace rrdma::host::device_plan_test
