#include "objects/cause.h"

#include <gtest/gtest.h>

#include <set>

#include "objects/completion_queue.h"

namespace rrdma::objects::cause_test {

TEST(Cause, TravelsWithThePsnInVendorErr) {
  const std::uint32_t vendor_err = vendor_error(Cause::kQueuePairDestroyed, wire::Psn(0xfedcba));
  EXPECT_EQ(cause_of(vendor_err), Cause::kQueuePairDestroyed);
  EXPECT_EQ(psn_of(vendor_err), wire::Psn(0xfedcba));
}

TEST(Cause, EveryCauseAndStatusHasWordsOfItsOwn) {
  std::set<std::string_view> sentences;
  int known = 0;
  const std::string_view unknown = describe(static_cast<Cause>(0xff));
  for (int i = 0; i < 256; ++i) {
    const auto text = describe(static_cast<Cause>(i));
    EXPECT_FALSE(text.empty());
    if (text == unknown) continue;
    EXPECT_NE(text.back(), '.');
    EXPECT_TRUE(sentences.insert(text).second) << text;
    EXPECT_EQ(remedy(static_cast<Cause>(i)).back(), '.') << text;
    ++known;
  }
  EXPECT_GE(known, 33);
  for (int i = 0; i <= static_cast<int>(Status::kGeneralError); ++i) {
    EXPECT_TRUE(sentences.insert(describe(static_cast<Status>(i))).second);
  }
}

}  // namespace rrdma::objects::cause_test
