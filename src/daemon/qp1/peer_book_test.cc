#include "daemon/qp1/peer_book.h"

#include <gtest/gtest.h>

namespace rrdma::daemon::peer_book_test {

constexpr std::uint32_t kFeatures = 3;
const wire::Gid kHere = wire::gid_of_ipv4({10, 0, 0, 1});
const wire::Gid kThere = wire::gid_of_ipv4({10, 0, 0, 2});

struct Hosts {
  PeerBook here{kFeatures, KeySource(1)};
  PeerBook there{5, KeySource(2)};
  Instant now{seconds(1).ns};

  // Exchanges the pending MADs of both; true if `here` learned something.
  bool exchange() {
    bool learned = false;
    for (bool moved = true; moved;) {
      moved = false;
      while (const auto mad = here.poll_mad()) {
        moved = true;
        there.handle_mad({.local = mad->route.remote, .remote = mad->route.local}, mad->octets, now);
      }
      while (const auto mad = there.poll_mad()) {
        moved = true;
        learned |= here.handle_mad({.local = mad->route.remote, .remote = mad->route.local}, mad->octets,
                                   now) == kThere;
      }
    }
    return learned;
  }
};

TEST(PeerBook, TwoOfAKindKnowEachOtherAfterOneExchange) {
  Hosts hosts;
  EXPECT_FALSE(hosts.here.look_up(kHere, kThere, 0, hosts.now).known);
  EXPECT_TRUE(hosts.exchange());
  const auto peer = hosts.here.look_up(kHere, kThere, 0, hosts.now);
  EXPECT_TRUE(peer.known);
  EXPECT_EQ(peer.features, 5u);
  EXPECT_EQ(peer.epoch, hosts.there.epoch());
  EXPECT_FALSE(hosts.here.poll_mad().has_value());  // asked only once
  // The other host was asked, not told: a question does not prove the features of its sender.
  EXPECT_FALSE(hosts.there.find(kHere, hosts.now).known);
}

TEST(PeerBook, AStatusMakesAStranger) {
  Hosts hosts;
  (void)hosts.here.look_up(kHere, kThere, 0, hosts.now);
  auto question = hosts.here.poll_mad();
  ASSERT_TRUE(question.has_value());
  question->octets[3] = static_cast<std::uint8_t>(wire::MadMethod::kGetResponse);
  question->octets[5] = 0x0c;
  EXPECT_EQ(hosts.here.handle_mad({.local = kHere, .remote = kThere}, question->octets, hosts.now), kThere);
  const auto peer = hosts.here.find(kThere, hosts.now);
  EXPECT_TRUE(peer.known);
  EXPECT_EQ(peer.features, 0u);
}

TEST(PeerBook, SilenceMakesAStrangerAfterThreeQuestions) {
  Hosts hosts;
  (void)hosts.here.look_up(kHere, kThere, 0, hosts.now);
  std::uint32_t questions = 0;
  while (hosts.here.next_deadline() != kNever) {
    while (hosts.here.poll_mad()) ++questions;
    hosts.now = hosts.here.next_deadline();
    hosts.here.handle_deadline(hosts.now);
  }
  EXPECT_EQ(questions, PeerBook::kAsksMax);
  EXPECT_TRUE(hosts.here.find(kThere, hosts.now).known);
  EXPECT_EQ(hosts.here.find(kThere, hosts.now).features, 0u);
  EXPECT_EQ(hosts.now.ns, seconds(1).ns + 3 * PeerBook::kPatience.ns);
}

TEST(PeerBook, ALostQuestionIsAskedAgain) {
  Hosts hosts;
  (void)hosts.here.look_up(kHere, kThere, 0, hosts.now);
  EXPECT_TRUE(hosts.here.poll_mad().has_value());  // lost
  hosts.now = hosts.here.next_deadline();
  hosts.here.handle_deadline(hosts.now);
  EXPECT_TRUE(hosts.exchange());
  EXPECT_EQ(hosts.here.find(kThere, hosts.now).features, 5u);
}

TEST(PeerBook, KnowledgeEndsAndIsAskedForAgain) {
  Hosts hosts;
  (void)hosts.here.look_up(kHere, kThere, 0, hosts.now);
  hosts.exchange();
  hosts.now = hosts.now + PeerBook::kLife;
  EXPECT_FALSE(hosts.here.find(kThere, hosts.now).known);
  EXPECT_FALSE(hosts.here.look_up(kHere, kThere, 0, hosts.now).known);
  EXPECT_TRUE(hosts.exchange());
  hosts.here.forget_all();
  EXPECT_FALSE(hosts.here.find(kThere, hosts.now).known);
}

TEST(PeerBook, BelievesNoAnswerThatItDidNotAskFor) {
  Hosts hosts;
  (void)hosts.here.look_up(kHere, kThere, 0, hosts.now);
  const auto question = hosts.here.poll_mad();
  const auto real = wire::parse_introduction(question->octets);
  wire::Introduction lie{.answer = true, .transaction_id = real->transaction_id + 1, .features = 0xff};
  const cm::MadAddresses from_there{.local = kHere, .remote = kThere};
  EXPECT_FALSE(hosts.here.handle_mad(from_there, wire::emit_introduction(lie), hosts.now));
  lie.transaction_id = real->transaction_id;
  const cm::MadAddresses from_elsewhere{.local = kHere, .remote = wire::gid_of_ipv4({10, 0, 0, 3})};
  EXPECT_FALSE(hosts.here.handle_mad(from_elsewhere, wire::emit_introduction(lie), hosts.now));
  EXPECT_FALSE(hosts.here.find(kThere, hosts.now).known);
}

TEST(PeerBook, IsBounded) {
  Hosts hosts;
  for (std::uint32_t i = 0; i < PeerBook::kPeersMax + 100; ++i) {
    const auto address = wire::gid_of_ipv4({10, static_cast<std::uint8_t>(i >> 16),
                                            static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)});
    (void)hosts.here.look_up(kHere, address, 0, hosts.now + nanoseconds(i));
  }
  EXPECT_LE(hosts.here.size(), PeerBook::kPeersMax);
}

TEST(PeerBook, WhoAsksForManyPushesOutNobodyElses) {
  constexpr std::uint32_t kAlice = 1, kMallory = 2;
  Hosts hosts;
  (void)hosts.here.look_up(kHere, kThere, 0, hosts.now, kAlice);
  const auto question = hosts.here.poll_mad();
  ASSERT_TRUE(question);
  const auto asked = wire::parse_introduction(question->octets);
  const wire::Introduction answer{.answer = true, .transaction_id = asked->transaction_id, .features = 1};
  const cm::MadAddresses from_there{.local = kHere, .remote = kThere};
  ASSERT_TRUE(hosts.here.handle_mad(from_there, wire::emit_introduction(answer), hosts.now));
  // So late that Alice's entry is the first to expire.
  const Instant late = hosts.now + PeerBook::kLife - milliseconds(1);
  for (std::uint32_t i = 0; i < 3 * PeerBook::kPeersMax; ++i) {
    const auto address = wire::gid_of_ipv4({11, static_cast<std::uint8_t>(i >> 16),
                                            static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)});
    (void)hosts.here.look_up(kHere, address, 0, late, kMallory);
  }
  EXPECT_TRUE(hosts.here.find(kThere, late).known);
}

}  // namespace rrdma::daemon::peer_book_test
