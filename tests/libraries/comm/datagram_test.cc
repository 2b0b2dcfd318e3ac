// Datagrams: to a resolved peer, back to the sender, and to a multicast group.
#include <cstring>

#include "tests/libraries/comm/world.h"

namespace comm_test::datagram_test {

class Datagrams : public World {
 public:
  using World::take;
  Buffer text(std::string_view words) {
    Buffer buffer = take(words.size());
    std::memcpy(buffer.data(), words.data(), words.size());
    return buffer;
  }
  // A datagram may be lost, so send it repeatedly until it arrives.
  Task<Packet> until_received(Datagram& from, Peer to, Datagram& at, std::string_view words) {
    for (;;) {
      (co_await from.send(to, text(words), kPatience)).value_or_throw();
      auto packet = co_await at.receive(200ms);
      if (packet) co_return std::move(*packet);
    }
  }
};

TEST_F(Datagrams, ThereAndBack) {
  Datagram one = Datagram::open(context_, address_of(context_) + ":0").value_or_throw();
  Datagram two = Datagram::open(context_, address_of(context_) + ":0").value_or_throw();
  run([](Datagrams* self, Datagram& a, Datagram& b) -> Task<> {
    const Peer peer = (co_await a.resolve(b.address(), kPatience)).value_or_throw();
    Packet packet = co_await self->until_received(a, peer, b, "over here");
    EXPECT_EQ(packet.text(), "over here");
    const Peer back = packet.sender().value_or_throw();
    Packet answer = co_await self->until_received(b, back, a, "found you");
    EXPECT_EQ(answer.text(), "found you");
  }(this, one, two));
}

TEST_F(Datagrams, ToAGroup) {
  Datagram one = Datagram::open(context_, address_of(context_) + ":0").value_or_throw();
  Datagram two = Datagram::open(context_, address_of(context_) + ":0").value_or_throw();
  run([](Datagrams* self, Datagram& a, Datagram& b) -> Task<> {
    Membership mine = (co_await a.join("239.7.7.7", kPatience)).value_or_throw();
    Membership theirs = (co_await b.join("239.7.7.7", kPatience)).value_or_throw();
    Packet packet = co_await self->until_received(a, mine.group(), b, "to all");
    EXPECT_EQ(packet.text(), "to all");
  }(this, one, two));
}

TEST_F(Datagrams, BadInput) {
  EXPECT_FALSE(Datagram::open(context_, "192.0.2.77:0").ok());
  EXPECT_FALSE(Datagram::open(context_, "nonsense").ok());
  Datagram one = Datagram::open(context_, address_of(context_) + ":0").value_or_throw();
  run([](Datagrams* self, Datagram& a, std::string host) -> Task<> {
    auto nobody = co_await a.resolve(host + ":1", 2s);
    EXPECT_FALSE(nobody.ok());
    Peer empty;
    EXPECT_EQ((co_await a.send(empty, self->take(1))).error().code(), Code::kInvalid);
    EXPECT_EQ((co_await a.send(empty, self->take(1))).error().code(), Code::kInvalid);
    EXPECT_EQ((co_await a.join("not a group")).error().code(), Code::kBadAddress);
    EXPECT_EQ((co_await a.receive(10ms)).error().code(), Code::kDeadline);
    const Peer me = (co_await a.resolve(a.address(), kPatience)).value_or_throw();
    EXPECT_EQ((co_await a.send(me, self->take(a.message_limit() + 1))).error().code(), Code::kTooLarge);
  }(this, one, address_of(context_)));
}

TEST_F(Datagrams, EndWhileSomebodyWaits) {
  for (int polls = 0; polls < 10; ++polls) {
    Datagram one = Datagram::open(context_, address_of(context_) + ":0").value_or_throw();
    auto receiving = one.receive();
    auto resolving = one.resolve(one.address());
    auto joining = one.join("239.7.7.8");
    receiving.start();
    resolving.start();
    joining.start();
    for (int i = 0; i < polls; ++i) context_.poll();
  }
  settle();
  // Nothing of them is left: the next one reaches itself.
  Datagram next = Datagram::open(context_, address_of(context_) + ":0").value_or_throw();
  run([](Datagrams* self, Datagram& a) -> Task<> {
    const Peer me = (co_await a.resolve(a.address(), kPatience)).value_or_throw();
    Packet packet = co_await self->until_received(a, me, a, "to myself");
    EXPECT_EQ(packet.text(), "to myself");
  }(this, next));
}

}  // namespace comm_test::datagram_test
