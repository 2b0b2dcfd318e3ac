// Channels on real eventfds: poll agrees with the pending events.
#include "preload/rdma_cm/channel.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <thread>

#include "base/owned_fd.h"

namespace rrdma::rdma_cm::channel_test {

class ChannelTest : public ::testing::Test {
 protected:
  PendingEvent event_of(const std::shared_ptr<Identifier>& id, std::uint32_t number) {
    PendingEvent event;
    event.id = id;
    event.content.event = number;
    return event;
  }
  bool readable() {
    pollfd one{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&one, 1, 0) == 1;
  }

  OwnedFd fd_{::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK)};
  Channel channel_{fd_.get(), 0};
  std::shared_ptr<Identifier> first_ = std::make_shared<Identifier>();
  std::shared_ptr<Identifier> second_ = std::make_shared<Identifier>();
};

TEST_F(ChannelTest, IsReadableWhileAnEventIsPending) {
  EXPECT_FALSE(readable());
  channel_.push(event_of(first_, 1));
  channel_.push(event_of(first_, 2));
  EXPECT_TRUE(readable());
  EXPECT_EQ(channel_.pop().content.event, 1u);
  EXPECT_TRUE(readable());
  EXPECT_EQ(channel_.pop().content.event, 2u);
  EXPECT_FALSE(readable());
  EXPECT_TRUE(channel_.empty());
}

TEST_F(ChannelTest, GivesUpTheEventsOfOneIdInTheirOrder) {
  for (std::uint32_t number = 0; number < 6; ++number)
    channel_.push(event_of(number % 2 == 0 ? first_ : second_, number));
  const auto taken = channel_.take_all_of(*first_);
  ASSERT_EQ(taken.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(taken[i].content.event, 2 * i);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(channel_.pop().content.event, 2 * i + 1);
  EXPECT_FALSE(readable());
}

TEST_F(ChannelTest, GivesUpTheEventsOfAMembership) {
  PendingEvent joined = event_of(first_, 12);
  joined.membership = std::make_shared<Membership>();
  const auto membership = joined.membership;
  channel_.push(event_of(first_, 0));
  channel_.push(std::move(joined));
  EXPECT_EQ(channel_.take_all_of(*membership).size(), 1u);
  EXPECT_EQ(channel_.take_all().size(), 1u);
  EXPECT_FALSE(readable());
}

TEST_F(ChannelTest, WakesWhoWaits) {
  const std::uint32_t turn = channel_.turn();
  std::thread pusher([&] { channel_.push(event_of(first_, 1)); });
  EXPECT_EQ(channel_.wait(turn), 0);
  pusher.join();
  EXPECT_FALSE(channel_.empty());
  // wait() returns at once for an old turn.
  EXPECT_EQ(channel_.wait(turn), 0);
}

}  // namespace rrdma::rdma_cm::channel_test
