#include "base/descriptor_set.h"

#include <gtest/gtest.h>

#include "base/owned_fd.h"

namespace rrdma::descriptor_set_test {

TEST(DescriptorSet, KnowsItsMembersAndTheNextOfThem) {
  static DescriptorSet set;
  for (const int fd : {3, 63, 64, 65535}) set.add(fd);
  for (const int fd : {-1, 65536, 1 << 30}) {
    set.add(fd);
    EXPECT_FALSE(set.contains(fd));
  }
  EXPECT_TRUE(set.contains(63));
  EXPECT_FALSE(set.contains(62));
  EXPECT_EQ(set.next(-5), 3);
  EXPECT_EQ(set.next(4), 63);
  EXPECT_EQ(set.next(64), 64);
  EXPECT_EQ(set.next(65), 65535);
  set.remove(65535);
  EXPECT_EQ(set.next(65), DescriptorSet::kNumbers);
  EXPECT_EQ(set.next(DescriptorSet::kNumbers), DescriptorSet::kNumbers);
}

TEST(OwnDescriptors, AreKnownAsLongAsTheyLive) {
  int number = -1;
  {
    OwnedFd first = lifted(raw::memfd_create("test", 0));
    number = first.get();
    EXPECT_GT(number, 2);
    EXPECT_TRUE(own_descriptors.contains(number));
    OwnedFd second;
    second = std::move(first);
    EXPECT_TRUE(own_descriptors.contains(number));
  }
  EXPECT_FALSE(own_descriptors.contains(number));
  OwnedFd given(raw::memfd_create("test", 0));
  number = given.release();
  EXPECT_FALSE(own_descriptors.contains(number));
  raw::close(number);
}

TEST(OwnDescriptors, LeaveTheLowNumbersToTheProgram) {
  const OwnedFd low = above_standard(raw::memfd_create("test", 0));
  const OwnedFd high = lifted(raw::memfd_create("test", 0));
  EXPECT_LT(low.get(), 256);
  EXPECT_GE(high.get(), 256);
}

}  // namespace rrdma::descriptor_set_test
