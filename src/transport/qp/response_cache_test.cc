// Compares ResponseCache's shortcut to the first pending entry with a search of all entries.
#include "transport/qp/response_cache.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"

namespace rrdma::transport::response_cache_test {

// The expected contents of the cache: entries by age, the oldest first.
class Model {
 public:
  explicit Model(std::uint32_t capacity) : capacity_(capacity) {}
  void add(Response* response) {
    std::erase(by_age_, response);
    by_age_.push_back(response);
    if (by_age_.size() > capacity_) by_age_.erase(by_age_.begin());
  }
  [[nodiscard]] Response* first_pending() const {
    for (Response* response : by_age_) {
      if (response->pending) return response;
    }
    return nullptr;
  }
  [[nodiscard]] Response* any(Prng& random) const {
    return by_age_.empty() ? nullptr : by_age_[random.below(by_age_.size())];
  }

 private:
  std::size_t capacity_;
  std::vector<Response*> by_age_;
};

TEST(ResponseCache, FindsTheOldestThatIsPending) {
  Prng random(7);
  for (const std::uint32_t capacity : {1u, 2u, 5u, 16u, 128u}) {
    ResponseCache cache;
    cache.allocate(capacity);
    Model model(capacity);
    for (int step = 0; step < 20'000; ++step) {
      switch (random.below(3)) {
        case 0:
          if (Response* added = cache.add()) {
            added->kind = wire::Kind::kReadRequest;
            cache.mark_pending(*added);
            model.add(added);
          }
          break;
        case 1:
          if (Response* first = cache.first_pending()) cache.mark_sent(*first);
          break;
        default:
          if (Response* some = model.any(random)) cache.mark_replay(*some);
      }
      ASSERT_EQ(cache.first_pending(), model.first_pending()) << "capacity " << capacity << ", step " << step;
      ASSERT_EQ(cache.any_pending(), model.first_pending() != nullptr);
    }
  }
}

TEST(ResponseCache, WhatWasNotSentIsNotReplaced) {
  ResponseCache cache;
  cache.allocate(2);
  Response* const first = cache.add();
  cache.mark_pending(*first);
  cache.mark_pending(*cache.add());
  EXPECT_FALSE(cache.has_room());
  EXPECT_EQ(cache.add(), nullptr);
  cache.mark_sent(*first);
  EXPECT_TRUE(cache.has_room());
  cache.mark_replay(*first);
  EXPECT_TRUE(cache.has_room()) << "a replay may go";
}

}  // namespace rrdma::transport::response_cache_test
