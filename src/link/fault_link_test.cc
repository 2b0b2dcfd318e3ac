#include "link/fault_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "link/test_frames.h"

namespace rrdma::link::fault_link_test {

using test::RecordingLink;
using test::Sent;

objects::Path path_of_test() {
  objects::Path path;
  path.local = wire::gid_of_ipv4({10, 0, 0, 1});
  path.remote = wire::gid_of_ipv4({10, 0, 0, 2});
  return path;
}

// Sends `count` frames with a flush after every eight, ten microseconds apart; then lets time pass.
std::vector<Sent> run(const char* spec, std::uint32_t count, FaultCounters* tally = nullptr) {
  RecordingLink inner;
  const auto parsed = parse_fault_spec(spec);
  EXPECT_TRUE(parsed.ok());
  FaultLink link(inner, *parsed);
  const objects::Path path = path_of_test();
  Instant now{1'000'000};
  std::vector<std::uint8_t> memory(8 * 128);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint8_t* const octets = memory.data() + i % 8 * 128;
    std::fill_n(octets, 128, static_cast<std::uint8_t>(i));
    EXPECT_TRUE(test::send(link, path, {.psn = i, .octets = 16 + i % 64}, octets));
    if (i % 8 == 7 || i + 1 == count) {
      link.flush(now);
      std::fill(memory.begin(), memory.end(), std::uint8_t{0xee});  // a held frame must be a copy
      now = now + microseconds(10);
    }
  }
  for (int i = 0; i < 10'000 && link.next_deadline() != kNever; ++i) link.flush(link.next_deadline());
  EXPECT_EQ(link.next_deadline(), kNever);
  if (tally != nullptr) *tally = link.tally();
  return inner.sent;
}

TEST(FaultLink, WithoutFaultsEverythingPassesInOrder) {
  const auto sent = run("", 1000);
  ASSERT_EQ(sent.size(), 1000u);
  for (std::uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(sent[i].psn, i);
}

TEST(FaultLink, ASeedIsAFate) {
  const char* spec = "drop=5%,dup=3%,reorder=4%,corrupt=2%,ecn=1%,seed=7";
  const auto first = run(spec, 5000);
  EXPECT_EQ(first, run(spec, 5000));
  EXPECT_NE(first, run("drop=5%,dup=3%,reorder=4%,corrupt=2%,ecn=1%,seed=8", 5000));
  const char* slow = "delay=50us±20us,drop=1%,dup=1%,seed=3";
  EXPECT_EQ(run(slow, 3000), run(slow, 3000));
}

TEST(FaultLink, TheRatesAreThoseOfTheSpecification) {
  FaultCounters tally;
  const auto sent = run("drop=10%,dup=5%,reorder=2%,corrupt=1%,ecn=3%,seed=1", 20'000, &tally);
  EXPECT_NEAR(static_cast<double>(tally.dropped), 2000, 200);
  EXPECT_NEAR(static_cast<double>(tally.duplicated), 900, 150);
  EXPECT_NEAR(static_cast<double>(tally.reordered), 360, 100);
  EXPECT_NEAR(static_cast<double>(tally.corrupted), 180, 70);
  EXPECT_NEAR(static_cast<double>(tally.marked), 540, 120);
  EXPECT_EQ(tally.spared, 0u);
  EXPECT_EQ(sent.size(), 20'000 - tally.dropped + tally.duplicated);
}

TEST(FaultLink, LossesComeInRunsWhereTheyAreAskedFor) {
  constexpr std::uint32_t kFrames = 200'000;
  FaultCounters tally;
  const auto sent = run("drop=1%,burst=8,seed=1", kFrames, &tally);
  EXPECT_NEAR(static_cast<double>(tally.dropped), kFrames * 0.01, kFrames * 0.003);
  std::uint32_t runs = 0;
  for (std::size_t i = 1; i < sent.size(); ++i) runs += sent[i].psn != sent[i - 1].psn + 1;
  ASSERT_GT(runs, 0u);
  EXPECT_NEAR(static_cast<double>(tally.dropped) / runs, 8, 1.5);
  run("drop=100%,burst=8", 100, &tally);
  EXPECT_EQ(tally.dropped, 100u);
}

TEST(FaultLink, ADepthIsHowFarReorderingGoes) {
  std::uint32_t farthest = 0;
  const auto sent = run("reorder=5%,depth=64,seed=3", 5000);
  ASSERT_EQ(sent.size(), 5000u);
  for (std::uint32_t i = 0; i < sent.size(); ++i)
    farthest = std::max(farthest, i > sent[i].psn ? i - sent[i].psn : 0);
  EXPECT_GT(farthest, 40u);
  EXPECT_LE(farthest, 64u);
}

TEST(FaultLink, ReorderingLosesNothingAndMovesALittle) {
  const auto sent = run("reorder=10%,seed=2", 2000);
  ASSERT_EQ(sent.size(), 2000u);
  std::set<std::uint32_t> seen;
  std::size_t moved = 0;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    seen.insert(sent[i].psn);
    moved += sent[i].psn != i;
    EXPECT_LE(std::abs(static_cast<int>(sent[i].psn) - static_cast<int>(i)), 40);
  }
  EXPECT_EQ(seen.size(), 2000u);
  EXPECT_GT(moved, 100u);
}

TEST(FaultLink, CopiesAreWhatWasSent) {
  for (const char* spec : {"reorder=30%,dup=10%,seed=4", "delay=30us±25us,dup=10%,seed=5"}) {
    for (const Sent& sent : run(spec, 1000)) {
      EXPECT_EQ(sent.payload,
                std::vector<std::uint8_t>(16 + sent.psn % 64, static_cast<std::uint8_t>(sent.psn)));
    }
  }
}

TEST(FaultLink, ADelayIsNeitherShorterNorLonger) {
  RecordingLink inner;
  FaultLink link(inner, *parse_fault_spec("delay=50us±20us,seed=9"));
  const objects::Path path = path_of_test();
  const std::vector<std::uint8_t> memory(64);
  for (std::uint32_t i = 0; i < 64; ++i)
    ASSERT_TRUE(test::send(link, path, {.psn = i, .octets = 8}, memory.data()));
  link.flush({1'000});
  EXPECT_TRUE(inner.sent.empty());
  while (link.next_deadline() != kNever) {
    const Instant due = link.next_deadline();
    link.flush({due.ns - 1});
    const std::size_t before = inner.sent.size();
    link.flush(due);
    EXPECT_GT(inner.sent.size(), before);
  }
  ASSERT_EQ(inner.sent.size(), 64u);
  for (const Sent& sent : inner.sent) {
    EXPECT_GE(sent.when.ns, 31'000);
    EXPECT_LE(sent.when.ns, 71'000);
  }
  EXPECT_TRUE(
      std::is_sorted(inner.sent.begin(), inner.sent.end(), [](auto& a, auto& b) { return a.when < b.when; }));
}

TEST(FaultLink, TheLastFrameDoesNotWaitForEverToBeOvertaken) {
  RecordingLink inner;
  FaultLink link(inner, *parse_fault_spec("reorder=100%"));
  const objects::Path path = path_of_test();
  ASSERT_TRUE(test::send(link, path, {.psn = 1}, nullptr));
  link.flush({0});
  EXPECT_TRUE(inner.sent.empty());
  ASSERT_NE(link.next_deadline(), kNever);
  link.flush(link.next_deadline());
  EXPECT_EQ(inner.sent.size(), 1u);
}

TEST(FaultLink, WhatIsDueWaitsForRoom) {
  RecordingLink inner;
  FaultLink link(inner, *parse_fault_spec("delay=10us"));
  const objects::Path path = path_of_test();
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(test::send(link, path, {.psn = i}, nullptr));
  link.flush({0});
  inner.room = 4;
  link.flush({20'000});
  EXPECT_EQ(inner.sent.size(), 4u);
  EXPECT_GT(link.next_deadline(), Instant{20'000});
  inner.room = 100;
  link.flush(link.next_deadline());
  ASSERT_EQ(inner.sent.size(), 10u);
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(inner.sent[i].psn, i);
}

TEST(FaultLink, AFullStoreIsNoRoom) {
  RecordingLink inner;
  FaultLink link(inner, *parse_fault_spec("delay=1s"));
  const objects::Path path = path_of_test();
  std::size_t taken = 0;
  while (taken < 10'000 && test::send(link, path, {.psn = static_cast<std::uint32_t>(taken)}, nullptr))
    ++taken;
  EXPECT_GE(taken, FaultLink::kHeldMax - 2);
  EXPECT_LE(taken, FaultLink::kHeldMax);
  // The inner link takes one burst at a time.
  for (int i = 0; i < 100 && inner.sent.size() < taken; ++i) link.flush({3'000'000'000 + i * 1'000'000});
  EXPECT_EQ(inner.sent.size(), 0u) << "a delay counts from the flush";
  for (int i = 0; i < 100 && inner.sent.size() < taken; ++i) link.flush({5'000'000'000 + i * 1'000'000});
  EXPECT_EQ(inner.sent.size(), taken);
}

TEST(FaultLink, MarksReachThePathOfThisFrameOnly) {
  RecordingLink inner;
  FaultLink link(inner, *parse_fault_spec("ecn=50%,seed=3"));
  objects::Path path = path_of_test();
  path.traffic_class = 0x20;
  for (std::uint32_t i = 0; i < 40; ++i) ASSERT_TRUE(test::send(link, path, {.psn = i}, nullptr));
  link.flush({0});
  EXPECT_EQ(path.traffic_class, 0x20);
  const auto marked =
      std::count_if(inner.sent.begin(), inner.sent.end(), [](auto& s) { return s.traffic_class == 0x23; });
  EXPECT_EQ(static_cast<std::uint64_t>(marked), link.tally().marked);
  EXPECT_GT(marked, 5);
  EXPECT_LT(marked, 35);
}

TEST(FaultLink, MarksAreForEveryFrameOfALongTurn) {
  RecordingLink inner(200);
  FaultLink link(inner, *parse_fault_spec("ecn=100%"));
  const objects::Path path = path_of_test();
  for (int turn = 0; turn < 2; ++turn) {
    inner.sent.clear();
    for (std::uint32_t i = 0; i < 200; ++i) ASSERT_TRUE(test::send(link, path, {.psn = i}, nullptr));
    link.flush({turn});
    ASSERT_EQ(inner.sent.size(), 200u);
    for (const auto& sent : inner.sent) EXPECT_EQ(sent.traffic_class & 3, 3);
  }
  EXPECT_EQ(link.tally().marked, 400u);
}

TEST(FaultLink, LargePayloadsVanish) {
  FaultCounters tally;
  const auto sent = run("mtu=40", 640, &tally);  // payloads of 16 to 79 bytes, equally often
  EXPECT_EQ(sent.size(), 250u);
  EXPECT_EQ(tally.too_long, 390u);
}

TEST(FaultLink, ASlowCableTakesOneAfterTheOther) {
  RecordingLink inner;
  FaultLink link(inner, *parse_fault_spec("rate=100M"));
  const objects::Path path = path_of_test();
  std::vector<std::uint8_t> memory(1000);
  for (std::uint32_t i = 0; i < 10; ++i)
    EXPECT_TRUE(test::send(link, path, {.psn = i, .octets = memory.size()}, memory.data()));
  link.flush(Instant{1});
  EXPECT_TRUE(inner.sent.empty());
  Instant last{1};
  for (std::size_t i = 1; i <= 10; ++i) {
    const Instant due = link.next_deadline();
    EXPECT_GE(due, last + microseconds(80));  // 1,000 bytes and their headers at 100 bits per microsecond
    EXPECT_LE(due, last + microseconds(90));
    link.flush(due);
    EXPECT_EQ(inner.sent.size(), i);
    last = due;
  }
}

}  // namespace rrdma::link::fault_link_test
