#include "transport/qp/admission.h"

#include <gtest/gtest.h>

#include "transport/qp/queue_pair.h"

namespace rrdma::transport::admission_test {

constexpr std::uint32_t kParty = 7;

wire::Gid gid(std::uint8_t last) {
  wire::Gid result;
  result.octets[15] = last;
  return result;
}

struct Admitting : testing::Test {
  Admitting() : qp(1, 1, 0, 1, 1) {
    qp.state = QpState::kReadyToSend;
    qp.path.local = gid(1);
    qp.path.remote = gid(2);
    qp.path.party = kParty;
    headers.bth.opcode = wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kSendOnly);
    headers.bth.pkey = wire::kDefaultPKey;
  }
  Admission verdict() const { return admit(qp, headers, origin); }

  QueuePair qp;
  wire::TransportHeaders headers;
  objects::PacketOrigin origin{
      .source = gid(2), .destination = gid(1), .party = kParty, .source_port = 50000};
};

TEST_F(Admitting, ThePeerAndNobodyElse) {
  EXPECT_EQ(verdict(), Admission::kAdmitted);
  origin.source = gid(3);
  EXPECT_EQ(verdict(), Admission::kWrongSource);
  origin.source = gid(2);
  origin.destination = gid(3);
  EXPECT_EQ(verdict(), Admission::kWrongDestination);
  origin.destination = gid(1);
  headers.bth.pkey = 0x1234;
  EXPECT_EQ(verdict(), Admission::kWrongPartition);
}

// The addresses match, but another process writes into its own ring or sends from the network.
TEST_F(Admitting, ANeighbourThatNamesThePeersAddressIsKnownByItsRing) {
  origin.party = kParty + 1;
  EXPECT_EQ(verdict(), Admission::kWrongParty);
  origin.party = 0;
  EXPECT_EQ(verdict(), Admission::kWrongParty);
  qp.path.party = 0;
  EXPECT_EQ(verdict(), Admission::kAdmitted);
  origin.party = kParty;
  EXPECT_EQ(verdict(), Admission::kWrongParty);
}

TEST_F(Admitting, CongestionNotificationsAreNoException) {
  headers.bth.opcode = wire::kCongestionNotification;
  EXPECT_EQ(verdict(), Admission::kAdmitted);
  origin.source = gid(3);
  EXPECT_EQ(verdict(), Admission::kWrongSource);
  origin.source = gid(2);
  headers.bth.pkey = 0x1234;
  EXPECT_EQ(verdict(), Admission::kWrongPartition);
  headers.bth.pkey = wire::kDefaultPKey;
  qp.state = QpState::kInit;
  EXPECT_EQ(verdict(), Admission::kWrongState);
  qp.state = QpState::kReadyToSend;
  qp.type = QpType::kUd;
  EXPECT_EQ(verdict(), Admission::kWrongType);
}

TEST_F(Admitting, AQpThatIsNotConnectedHearsNobody) {
  for (const QpState state : {QpState::kReset, QpState::kInit, QpState::kError}) {
    qp.state = state;
    EXPECT_EQ(verdict(), Admission::kWrongState);
  }
}

TEST_F(Admitting, DatagramsByKeyAndLink) {
  qp.type = QpType::kUd;
  qp.path = {};
  qp.attributes.qkey = {5};
  headers.bth.opcode = wire::Opcode(wire::Transport::kUnreliableDatagram, wire::Step::kSendOnly);
  headers.deth.qkey = {5};
  origin.party = 0;
  origin.source = gid(99);
  EXPECT_EQ(verdict(), Admission::kAdmitted);
  headers.deth.qkey = {6};
  EXPECT_EQ(verdict(), Admission::kWrongKey);
  headers.deth.qkey = {5};
  origin.party = kParty;  // rings carry connections only, because a ring's writer can put any address into a
                          // datagram
  EXPECT_EQ(verdict(), Admission::kWrongParty);
}

TEST_F(Admitting, APortOnceProved) {
  qp.peer_port = 50000;
  EXPECT_EQ(verdict(), Admission::kAdmitted);
  origin.source_port = 50001;
  EXPECT_EQ(verdict(), Admission::kWrongPort);
  origin.source_port = 0;  // arrived on a link without ports
  EXPECT_EQ(verdict(), Admission::kAdmitted);
}

TEST(XrcDomain, QueuesOfOtherDomainsAreOutOfReach) {
  const int ours = 0, theirs = 0;
  objects::CompletionQueue completions(1, nullptr);
  QueuePair target(1, 1, 0, 1, 1);
  objects::ReceiveQueue queue(1, 1);
  queue.completions = &completions;
  EXPECT_FALSE(reaches(target, &queue)) << "no domain is no domain in common";
  target.xrc_domain = queue.xrc_domain = &ours;
  EXPECT_TRUE(reaches(target, &queue));
  queue.xrc_domain = &theirs;
  EXPECT_FALSE(reaches(target, &queue));
}

TEST(Refusals, EachHasItsCounter) {
  Counters counters;
  for (auto refusal : {Admission::kWrongType, Admission::kWrongPartition, Admission::kWrongState,
                       Admission::kWrongKey, Admission::kWrongParty, Admission::kWrongSource,
                       Admission::kWrongDestination, Admission::kWrongPort}) {
    EXPECT_EQ(++count_of(counters, refusal), 1u);
  }
}

}  // namespace rrdma::transport::admission_test
