#include "preload/verbs/live_objects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace rrdma::verbs::live_objects_test {

std::set<void*> released;
void release(void* memory) { released.insert(memory); }

class Objects : public ::testing::Test {
 protected:
  Objects() { released.clear(); }
  Presence presence(const void* object, ObjectKind kind = ObjectKind::kQp) {
    Record record;
    return live_.find(kind, object, record);
  }
  int context_ = 0, other_ = 0, device_ = 0, second_device_ = 0;
  char memory_[LiveObjects::kKept + 1] = {};
  LiveObjects live_;
};

TEST_F(Objects, LiveFromTheirMakingToTheirEnd) {
  EXPECT_EQ(presence(memory_), Presence::kUnknown);
  live_.add(ObjectKind::kQp, memory_, {.context = &context_, .device = &device_, .handle = 7});
  Record record;
  ASSERT_EQ(live_.find(ObjectKind::kQp, memory_, record), Presence::kLive);
  EXPECT_EQ(record.context, &context_);
  EXPECT_EQ(record.handle, 7u);
  EXPECT_EQ(presence(memory_, ObjectKind::kCq), Presence::kUnknown);
  live_.bury(ObjectKind::kQp, memory_, memory_, release);
  EXPECT_EQ(presence(memory_), Presence::kGone);
}

TEST_F(Objects, AreListedByContext) {
  live_.add(ObjectKind::kQp, memory_, {.context = &context_});
  live_.add(ObjectKind::kQp, memory_ + 1, {.context = &other_});
  live_.add(ObjectKind::kCq, memory_ + 2, {.context = &context_});
  EXPECT_EQ(live_.list(ObjectKind::kQp, &context_), std::vector<void*>{memory_});
}

TEST_F(Objects, KeepTheirMemoryUntilManyOthersHaveGone) {
  for (std::size_t i = 0; i < LiveObjects::kKept; ++i) {
    live_.add(ObjectKind::kQp, memory_ + i, {});
    live_.bury(ObjectKind::kQp, memory_ + i, memory_ + i, release);
  }
  EXPECT_TRUE(released.empty());
  EXPECT_EQ(presence(memory_), Presence::kGone);
  live_.add(ObjectKind::kQp, memory_ + LiveObjects::kKept, {});
  live_.bury(ObjectKind::kQp, memory_ + LiveObjects::kKept, memory_ + LiveObjects::kKept, release);
  EXPECT_EQ(released, std::set<void*>{memory_});
  EXPECT_EQ(presence(memory_), Presence::kUnknown);  // the address may have been reused
}

TEST_F(Objects, HaveExactlyAsManyPlacesAsTheDeviceOffers) {
  constexpr std::uint32_t kMax = 3;
  for (std::uint32_t i = 0; i < kMax; ++i) {
    ASSERT_TRUE(live_.take_place(ObjectKind::kQp, &device_, kMax));
    live_.add(ObjectKind::kQp, memory_ + i, {.device = &device_, .counted = true});
  }
  EXPECT_FALSE(live_.take_place(ObjectKind::kQp, &device_, kMax));
  EXPECT_TRUE(live_.take_place(ObjectKind::kQp, &second_device_, kMax));
  EXPECT_TRUE(live_.take_place(ObjectKind::kCq, &device_, kMax));
  live_.bury(ObjectKind::kQp, memory_, memory_, release);
  EXPECT_TRUE(live_.take_place(ObjectKind::kQp, &device_, kMax));
  EXPECT_FALSE(live_.take_place(ObjectKind::kQp, &device_, kMax));
  live_.give_place_back(ObjectKind::kQp, &device_);
  EXPECT_TRUE(live_.take_place(ObjectKind::kQp, &device_, kMax));
}

}  // namespace rrdma::verbs::live_objects_test
