// An engine under a hostile stream of early packets: packets ahead of one that never comes. Each takes a slot
// of the engine's store. The repairs of other connections must still find room there. Without it, every
// packet behind a lost one is dropped and sent again.
#include <utility>

#include "transport/test_engine_pair.h"

namespace rrdma::transport::hostile_engine_test {

constexpr std::uint32_t kFirstPsn = 0xfffffe;
constexpr std::uint32_t kVictimQpn = 0x40;  // of the connection that the attacker has
constexpr std::uint32_t kMessageOctets = 16 * 1024;
constexpr std::uint64_t kLostPackets = 2;
constexpr std::uint64_t kBehindTheLoss = 13;  // go-back-N sends them all again

class HostileEngine : public EnginePair {
 protected:
  ~HostileEngine() override {
    if (attacked_ != nullptr) b_.engine.destroy_qp(*attacked_);
  }

  // As hosts do that recognise each other after their programs connected.
  void connect_rrdma() {
    connect(QpType::kRc);
    for (Host* host : {&a_, &b_}) host->engine.set_peer_features(*host->qp, objects::kFeatureArrivals);
  }

  // A connection of b's with a peer that sends only early packets.
  void attack(std::uint32_t packets) {
    const QpInit init{.type = QpType::kRc,
                      .pd = &b_.pd,
                      .send_cq = &b_.cq,
                      .receive_cq = &b_.cq,
                      .send_entries = 4,
                      .receive_entries = 4};
    attacked_ = &b_.engine.create_qp(init, wire::Qpn(kVictimQpn));
    QpAttributes attributes;
    attributes.state = QpState::kInit;
    attributes.access_flags = objects::kRemoteWrite;
    ok(b_.engine.modify_qp(*attacked_, attributes, kAttrState | kAttrPKeyIndex | kAttrPort | kAttrAccessFlags,
                           now_));
    attributes.state = QpState::kReadyToReceive;
    attributes.path_mtu = 3;
    attributes.path.local.octets[15] = 2;
    attributes.path.remote.octets[15] = 66;
    attributes.path.features = objects::kFeatureArrivals;
    attributes.destination = wire::Qpn(0x99);
    attributes.receive_psn = wire::Psn(kFirstPsn);
    attributes.max_destination_reads = 4;
    attributes.min_rnr_timer = 1;
    ok(b_.engine.modify_qp(*attacked_, attributes,
                           kAttrState | kAttrPath | kAttrPathMtu | kAttrDestinationQpn | kAttrReceivePsn |
                               kAttrMaxDestinationReads | kAttrMinRnrTimer,
                           now_));
    std::uint8_t grh[40] = {};
    const objects::PacketOrigin origin{
        .source = attributes.path.remote, .destination = attributes.path.local, .grh = grh};
    const std::vector<std::uint8_t> payload(1024);
    for (std::uint32_t i = 1; i <= packets; ++i) {
      wire::TransportPacket packet{};
      packet.headers.bth.opcode = wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kSendMiddle);
      packet.headers.bth.pkey = wire::kDefaultPKey;
      packet.headers.bth.destination = wire::Qpn(kVictimQpn);
      packet.headers.bth.psn = wire::Psn(kFirstPsn) + i;
      packet.payload = payload;
      b_.engine.handle_packet(packet, origin, now_);
    }
  }

  // A WRITE of 16 packets, two of which are lost once. Returns how many packets were sent again.
  std::uint64_t resent_by_write() {
    const std::uint64_t before = a_.engine.counters().packets_resent;
    fill(a_, 0, kMessageOctets);
    EXPECT_EQ(post(a_, SendOpcode::kWrite, {a_.sge(0, kMessageOctets)}, 4096), PostError::kNone);
    a_.engine.transmit(a_.wire, now_);
    auto& packets = a_.wire.packets;
    EXPECT_EQ(packets.size(), 16u);
    packets.erase(packets.begin() + 9);
    packets.erase(packets.begin() + 3);
    run();
    EXPECT_EQ(a_.poll().status, Status::kSuccess);
    EXPECT_TRUE(std::equal(a_.buffer.begin(), a_.buffer.begin() + kMessageOctets, b_.buffer.begin() + 4096));
    return a_.engine.counters().packets_resent - before;
  }

  QueuePair* attacked_ = nullptr;
};

TEST_F(HostileEngine, WithoutAnAttackOnlyWhatWasLostIsSentAgain) {
  connect_rrdma();
  EXPECT_EQ(resent_by_write(), kLostPackets);
}

// The rest of the store is small, and is shared by all: the repair still needs fewer packets than going back.
TEST_F(HostileEngine, EarlyPacketsOfOneLeaveRoomForTheOthers) {
  connect_rrdma();
  attack(ReorderBuffer::kPsns - 1);
  EXPECT_GE(b_.engine.counters().kept_early, 512u) << "the attack is as strong as it can be";
  EXPECT_LT(resent_by_write(), kBehindTheLoss / 2 + 1);
}

// The packets go with the connection.
TEST_F(HostileEngine, TheRoomComesBackWithTheEndOfTheConnection) {
  connect_rrdma();
  attack(ReorderBuffer::kPsns - 1);
  b_.engine.destroy_qp(*std::exchange(attacked_, nullptr));
  EXPECT_EQ(resent_by_write(), kLostPackets);
}

}  // namespace rrdma::transport::hostile_engine_test
