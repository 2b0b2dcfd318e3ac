#include "preload/rdma_cm/device_number.h"

#include <gtest/gtest.h>

namespace rrdma::rdma_cm::device_number_test {

TEST(DeviceNumber, IsReadAsSysfsWritesIt) {
  EXPECT_EQ(parse_device_number("10:122\n", 0), ::makedev(10, 122));
  EXPECT_EQ(parse_device_number("231:255", 0), ::makedev(231, 255));
}

TEST(DeviceNumber, IsTheOtherOneWhereThereIsNone) {
  for (const char* text : {"", "\n", "10", "rdma_cm", ":5"})
    EXPECT_EQ(parse_device_number(text, 7), 7u) << text;
}

}  // namespace rrdma::rdma_cm::device_number_test
