// Closing alone, without a device: the ways in which a connection ends.
#include "lib/comm/closing.h"

#include <gtest/gtest.h>

namespace rrdma::comm::detail::closing_test {

TEST(Closing, ThisEndClosesFirst) {
  Closing closing;
  EXPECT_FALSE(closing.either());
  EXPECT_FALSE(closing.message_due());
  closing.begin();
  EXPECT_TRUE(closing.either());
  EXPECT_TRUE(closing.message_due());
  EXPECT_EQ(closing.reason(Code::kPeerGone), Code::kClosed);
  closing.message_sent();
  EXPECT_FALSE(closing.message_due());
  EXPECT_FALSE(closing.complete()) << "the message may still be lost";
  closing.message_acknowledged();
  EXPECT_TRUE(closing.complete());
  closing.disconnect(true);
  EXPECT_FALSE(closing.awaits_disconnect()) << "the peer knows already";
}

TEST(Closing, ThePeerClosesFirst) {
  Closing closing;
  closing.hear_close();
  EXPECT_TRUE(closing.either());
  EXPECT_TRUE(closing.complete());
  EXPECT_FALSE(closing.message_due());
  EXPECT_EQ(closing.reason(Code::kPeerGone), Code::kClosedByPeer);
  EXPECT_EQ(closing.loss(), Code::kClosedByPeer);
  closing.begin();
  EXPECT_EQ(closing.reason(Code::kPeerGone), Code::kClosed) << "our own close comes before the peer's";
}

TEST(Closing, NobodyCloses) {
  Closing closing;
  EXPECT_EQ(closing.reason(Code::kProtocol), Code::kProtocol);
  EXPECT_EQ(closing.loss(), Code::kPeerGone);
  EXPECT_FALSE(closing.complete());
  EXPECT_FALSE(closing.awaits_disconnect());
  closing.disconnect(true);
  EXPECT_TRUE(closing.awaits_disconnect());
  closing.disconnected();
  EXPECT_FALSE(closing.awaits_disconnect());
}

}  // namespace rrdma::comm::detail::closing_test
