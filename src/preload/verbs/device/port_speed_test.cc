#include "preload/verbs/device/port_speed.h"

#include <gtest/gtest.h>

namespace rrdma::verbs::port_speed_test {

// Megabits per second of one lane, by active_speed (SDR, QDR, EDR, HDR, NDR).
std::uint64_t lane_mbps(std::uint8_t speed) {
  switch (speed) {
    case 1: return 2'500;
    case 4: return 10'000;
    case 32: return 25'000;
    case 64: return 50'000;
    case 128: return 100'000;
    default: return 0;
  }
}
std::uint64_t promised(PortSpeed of) { return lane_mbps(of.speed) * (of.width == 2 ? 4 : 1); }

TEST(PortSpeed, SaysWhatUsualInterfacesHave) {
  for (const std::uint64_t mbps : {10'000, 25'000, 40'000, 50'000, 100'000, 200'000, 400'000})
    EXPECT_EQ(promised(port_speed_of(mbps)), mbps);
}

TEST(PortSpeed, PromisesNoMoreThanThereIs) {
  for (std::uint64_t mbps = 2'500; mbps <= 900'000; mbps += 2'500)
    EXPECT_LE(promised(port_speed_of(mbps)), mbps) << mbps;
}

TEST(PortSpeed, HasALeastOne) {
  EXPECT_EQ(port_speed_of(0).width, 1);
  EXPECT_EQ(port_speed_of(1'000).speed, 1);
}

}  // namespace rrdma::verbs::port_speed_test
