#include "transport/recovery/flight_log.h"

#include <gtest/gtest.h>

namespace rrdma::transport::flight_log_test {

using wire::Psn;

class FlightLogTest : public testing::Test {
 protected:
  ~FlightLogTest() override { log.disable(); }
  FlightStore store;
  FlightLog log;
};

void send(FlightLog& log, Psn from, std::uint32_t packets) {
  for (std::uint32_t i = 0; i < packets; ++i) log.add(from + i, Instant{from.value + i}, false, false, false);
}

TEST_F(FlightLogTest, KeepsWhatItKnowsWhenItGrows) {
  log.enable(256, store);
  const Psn first(0xfffffa);  // PSNs wrap around
  send(log, first, 5);
  log.become(first + 1, PacketFate::kDone);
  log.become(first + 3, PacketFate::kLost);
  send(log, first + 5, 200);
  EXPECT_EQ(log.at(first).fate, PacketFate::kUnderWay);
  EXPECT_EQ(log.at(first + 1).fate, PacketFate::kDone);
  EXPECT_EQ(log.at(first + 3).fate, PacketFate::kLost);
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(log.at(first + i).sent_at.ns, first.value + i);
  EXPECT_EQ(log.at(first + 204).sent_at.ns, (first + 5).value + 199);
  EXPECT_EQ(log.under_way(), 203u);
  EXPECT_EQ(log.lost(), 1u);
}

TEST_F(FlightLogTest, GoesRoundInTheRoomThatItHas) {
  log.enable(64, store);
  Psn psn(77);
  send(log, psn, 6);
  for (int i = 0; i < 1000; ++i, ++psn) {
    log.become(psn, PacketFate::kDone);
    log.retire(psn);
    send(log, psn + 6, 1);
  }
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(log.at(psn + i).sent_at.ns, psn.value + i);
  EXPECT_EQ(log.under_way(), 6u);
}

TEST_F(FlightLogTest, FillsToItsCapacity) {
  log.enable(33, store);
  ASSERT_EQ(log.capacity(), 64u);
  send(log, Psn(5), 64);
  EXPECT_EQ(log.at(Psn(5)).sent_at.ns, 5);
  EXPECT_EQ(log.at(Psn(68)).sent_at.ns, 68);
}

TEST_F(FlightLogTest, GivesItsRingBack) {
  log.enable(64, store);
  send(log, Psn(0), 64);
  log.disable();
  EXPECT_EQ(log.capacity(), 0u);
  log.enable(64, store);
  send(log, Psn(1'000), 9);
  PacketRecord* const other = store.take(64);  // the store has another ring, distinct from the log's
  other[0].sent_at = Instant{7};
  EXPECT_EQ(log.at(Psn(1'008)).sent_at.ns, 1'008);
  EXPECT_EQ(log.at(Psn(1'000)).sent_at.ns, 1'000);
  store.give_back(other, 64);
}

}  // namespace rrdma::transport::flight_log_test
