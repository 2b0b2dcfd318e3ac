// Direct access between two unprivileged processes (user nobody, if the tests run as root): correct bytes,
// refusals that leave the request to packets, the last byte last, and release of memory during a write.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include <atomic>
#include <iterator>
#include <new>
#include <numeric>
#include <optional>

#include "link/shm/direct_sides.h"
#include "objects/memory.h"

namespace rrdma::link::direct_test {

TEST(Direct, OctetsGoAndComeBackWhole) {
  run_two(
      [](DirectSide& side, Board& board) {
        std::vector<std::uint8_t> memory(3'000'000, 0xee);
        side.publish_qp();
        side.publish_memory(memory.data(), memory.size());
        board.stage = 1;
        STEP(1, wait_for(board.other_stage, 1));
        // 1,000,000 bytes at 17, and nothing around them.
        std::vector<std::uint8_t> expected(1'000'000);
        fill_content(expected, 1);
        STEP(2, std::equal(expected.begin(), expected.end(), memory.begin() + 17));
        STEP(3, memory[16] == 0xee && memory[1'000'017] == 0xee);
        return 0;
      },
      [](DirectSide& side, Board& board) {
        STEP(1, wait_for(board.stage, 1));
        STEP(2, side.meet());
        std::vector<std::uint8_t> data(1'000'000);
        std::vector<std::uint8_t> back(data.size());
        fill_content(data, 1);
        STEP(3, side.write(kAddress + 17, data.data(), data.size()));
        STEP(4, side.read(kAddress + 17, back.data(), back.size()));
        STEP(5, back == data);
        // The edges: the last byte is inside, one more is outside.
        STEP(6, side.write(kAddress + 2'999'999, data.data(), 1));
        STEP(7, !side.write(kAddress + 2'999'999, data.data(), 2));
        STEP(8, !side.write(kAddress - 1, data.data(), 1));
        STEP(9, !side.write(kAddress + 3'000'000, data.data(), 1));
        STEP(10, !side.write(~std::uint64_t{0}, data.data(), 8));
        board.other_stage = 1;
        return 0;
      });
}

TEST(Direct, WhatTheTableDoesNotAllowIsLeftToPackets) {
  run_two(
      [](DirectSide& side, Board& board) {
        std::vector<std::uint8_t> memory(4096, 0);
        side.publish_qp();
        side.publish_memory(memory.data(), memory.size(), wire::RKey{0x100}, objects::kRemoteRead);
        side.link->publish(DirectKey{.rkey = {0x200},
                                     .address = kAddress,
                                     .length = 4096,
                                     .host = memory.data(),
                                     .access = kAllRights,
                                     .domain = 6});
        side.link->publish(DirectKey{.rkey = {0x300},
                                     .address = kAddress,
                                     .length = 4096,
                                     .host = memory.data(),
                                     .access = kAllRights,
                                     .domain = 5,
                                     .only_through = wire::Qpn(77)});
        side.link->publish(DirectKey{.rkey = {0x400},
                                     .address = kAddress,
                                     .length = 4096,
                                     .host = memory.data(),
                                     .access = kAllRights,
                                     .domain = 5,
                                     .only_through = kTargetQpn});
        side.publish_memory(memory.data(), memory.size());
        board.stage = 1;
        STEP(1, wait_for(board.other_stage, 1));
        STEP(2, side.link->retire(kTargetQpn));
        side.publish_qp(kAllRights, wire::Qpn(99));  // now connected to another peer
        board.stage = 2;
        STEP(3, wait_for(board.other_stage, 2));
        STEP(4, side.link->retire(kTargetQpn));
        side.publish_qp(objects::kRemoteRead);
        board.stage = 3;
        STEP(5, wait_for(board.other_stage, 3));
        return 0;
      },
      [](DirectSide& side, Board& board) {
        STEP(1, wait_for(board.stage, 1));
        STEP(2, side.meet());
        const std::uint8_t data[8] = {};
        std::uint8_t back[8];
        STEP(3, !side.write(kAddress, data, 8, wire::RKey{0x100}));  // read only
        STEP(4, !side.write(kAddress, data, 8, wire::RKey{0x200}));  // another domain
        STEP(5, !side.write(kAddress, data, 8, wire::RKey{0x300}));  // another QP's window
        STEP(6, side.write(kAddress, data, 8, wire::RKey{0x400}));
        STEP(7, !side.write(kAddress, data, 8, wire::RKey{0x999}));  // no such key
        STEP(8, !side.write(kAddress, data, 0));                     // empty: left to packets
        STEP(9, side.write(kAddress, data, 8));
        board.other_stage = 1;
        STEP(10, wait_for(board.stage, 2));
        STEP(11, !side.write(kAddress, data, 8));
        board.other_stage = 2;
        STEP(12, wait_for(board.stage, 3));
        STEP(13, !side.write(kAddress, data, 8));
        STEP(14, side.read(kAddress, back, 8));
        board.other_stage = 3;
        return counter(*side.link, "shm_direct_done") == 3 ? 0 : 15;
      });
}

TEST(Direct, UnmappedMemoryIsAFaultAndLeftToPackets) {
  run_two(
      [](DirectSide& side, Board& board) {
        void* memory = ::mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        side.publish_qp();
        side.publish_memory(memory, 65536);
        // Prevents another mapping at this address meanwhile.
        ::mmap(memory, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        board.stage = 1;
        STEP(1, wait_for(board.other_stage, 1));
        return 0;
      },
      [](DirectSide& side, Board& board) {
        STEP(1, wait_for(board.stage, 1));
        STEP(2, side.meet());
        const std::uint8_t data[8] = {};
        STEP(3, !side.write(kAddress, data, 8));
        STEP(4, !side.write(kAddress, data, 8));
        STEP(5, counter(*side.link, "shm_direct_fault") == 2);
        board.other_stage = 1;
        return 0;
      });
}

TEST(Direct, AProcessThatMayNotBeTracedIsNotReached) {
  if (::prctl(PR_GET_DUMPABLE) != 1) GTEST_SKIP() << "not dumpable to begin with";
  run_two(
      [](DirectSide& side, Board& board) {
        std::vector<std::uint8_t> memory(4096, 0);
        side.publish_qp();
        side.publish_memory(memory.data(), memory.size());
        board.stage = 1;
        STEP(1, wait_for(board.other_stage, 1));
        ::prctl(PR_SET_DUMPABLE, 0);
        board.stage = 2;
        STEP(2, wait_for(board.other_stage, 2));
        return 0;
      },
      [](DirectSide& side, Board& board) {
        STEP(1, wait_for(board.stage, 1));
        STEP(2, side.meet());
        const std::uint8_t data[8] = {};
        STEP(3, side.write(kAddress, data, 8));
        board.other_stage = 1;
        STEP(4, wait_for(board.stage, 2));
        STEP(5, !side.write(kAddress, data, 8));
        STEP(6, counter(*side.link, "shm_direct_refused") == 1);
        board.other_stage = 2;
        return 0;
      });
}

TEST(Direct, AnotherProcessBehindThePidIsNotReached) {
  auto table = DirectTable::create().value();
  DirectIntroduction introduction;
  introduction.nonce[0] = 1;
  std::array<std::uint8_t, DirectIntroduction::kNonceOctets> here{};
  introduction.nonce_address = reinterpret_cast<std::uintptr_t>(here.data());
  std::atomic<std::uint64_t> in_use{0};
  const OwnedFd fd(raw::fcntl(table.fd(), F_DUPFD_CLOEXEC, 3));
  EXPECT_EQ(DirectPeer::open(fd, ::getpid(), introduction, in_use).error().problem,
            ShmProblem::kNotReachable);
  EXPECT_EQ(DirectPeer::open(fd, 0, introduction, in_use).error().problem, ShmProblem::kNotReachable);
  here[0] = 1;
  EXPECT_TRUE(DirectPeer::open(fd, ::getpid(), introduction, in_use).ok());
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, table.fd(), 0), MAP_FAILED);
}

TEST(DirectTable, RowsAreFoundUntilTheyAreUnpublishedAndNoPlaceMeansPackets) {
  auto table = DirectTable::create().value();
  auto view = DirectTableView::open(OwnedFd(raw::fcntl(table.fd(), F_DUPFD_CLOEXEC, 3))).value();
  // Keys that all probe the same rows: kDirectProbes in each tier.
  constexpr std::uint32_t kPlaces = (std::size(kDirectTiers) - 1) * kDirectProbes;
  std::uint32_t stride = 1;
  for (std::size_t i = 0; i + 1 < std::size(kDirectTiers); ++i)
    stride = std::lcm(stride, static_cast<std::uint32_t>(kDirectTiers[i + 1] - kDirectTiers[i]));
  const auto key_of = [stride](std::uint32_t i) { return wire::RKey{(i * stride + 9) << 8 | 1}; };
  for (std::uint32_t i = 0; i < kPlaces; ++i)
    EXPECT_TRUE(table.publish(DirectKey{.rkey = key_of(i), .length = i}));
  EXPECT_FALSE(table.publish(DirectKey{.rkey = key_of(kPlaces)}));
  EXPECT_FALSE(view.find(key_of(kPlaces)).has_value());
  const auto found = view.find(key_of(3));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->value.length, 3u);
  EXPECT_TRUE(found->holds());
  EXPECT_TRUE(table.unpublish(key_of(3)));
  EXPECT_FALSE(table.unpublish(key_of(3)));
  EXPECT_FALSE(found->holds());
  EXPECT_FALSE(view.find(key_of(3)).has_value());
  EXPECT_TRUE(table.publish(DirectKey{.rkey = key_of(kPlaces), .length = 99}));
  EXPECT_FALSE(found->holds()) << "a new row in the old place";
  EXPECT_EQ(view.find(key_of(kPlaces))->value.length, 99u);
}

// The target spins on the last byte of each WRITE, as programs do, and then checks the rest.
class LastOctet : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Memory, LastOctet, testing::Bool(),
                         [](const auto& mapped) { return mapped.param ? "Mapped" : "ThroughTheKernel"; });
TEST_P(LastOctet, IsNeverEarly) {
  constexpr std::uint64_t kWrites = 1'000'000;
  constexpr std::size_t kSlots = 1024;
  constexpr std::size_t kSlotOctets = 256;
  static constexpr auto length_of = [](std::uint64_t i) { return 2 + (i * 37) % 200; };
  static constexpr auto place_of = [](std::uint64_t i) { return i % kSlots * kSlotOctets + i % 13; };
  static constexpr auto mark_of = [](std::uint64_t i) {
    return static_cast<std::uint8_t>(1 + i / kSlots % 255);
  };
  const bool mapped = GetParam();
  run_two(
      [mapped](DirectSide& side, Board& board) {
        constexpr std::size_t kOctets = kSlots * kSlotOctets;
        const OwnedFd file(raw::memfd_create("last-octet", MFD_CLOEXEC));
        STEP(1, raw::ftruncate(file.get(), kOctets) == 0);
        auto* const memory = static_cast<std::uint8_t*>(
            ::mmap(nullptr, kOctets, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
        side.publish_qp();
        STEP(1,
             side.link->publish(DirectKey{.rkey = kRkey,
                                          .address = kAddress,
                                          .length = kOctets,
                                          .host = memory,
                                          .access = kAllRights,
                                          .domain = 5,
                                          .file = mapped ? static_cast<std::uint32_t>(file.get()) + 1 : 0}));
        board.stage = 1;
        std::uint64_t early = 0;
        for (std::uint64_t i = 0; i < kWrites; ++i) {
          auto* at = memory + place_of(i);
          const std::size_t length = length_of(i);
          const std::uint8_t mark = mark_of(i);
          for (std::uint64_t spins = 0; __atomic_load_n(at + length - 1, __ATOMIC_ACQUIRE) != mark; ++spins) {
            if (spins % (1 << 20) == 0 && board.other_stage.load() > 1) return 2;
          }
          for (std::size_t o = 0; o < length; ++o) early += at[o] != mark;
          if (i % 256 == 255) board.count.store(i + 1, std::memory_order_release);
        }
        return early == 0 ? 0 : 3;
      },
      [mapped](DirectSide& side, Board& board) {
        STEP(1, wait_for(board.stage, 1));
        STEP(2, side.meet());
        std::vector<std::uint8_t> data(256);
        for (std::uint64_t i = 0; i < kWrites; ++i) {
          if (i % 256 == 0 && i >= kSlots / 2) STEP(3, wait_for(board.count, i - kSlots / 2));
          std::fill(data.begin(), data.end(), mark_of(i));
          if (side.write(kAddress + place_of(i), data.data(), length_of(i))) continue;
          board.other_stage = 2;
          return 4;
        }
        STEP(5, counter(*side.link, "shm_direct_mapped") == (mapped ? kWrites : 0));
        return 0;
      });
}

// After retire() returns, nothing may change the memory.
TEST(Direct, RetiredMemoryIsLeftAlone) {
  constexpr std::uint32_t kRounds = 1'500;
  constexpr std::size_t kOctets = 600'000;  // several pieces
  run_two(
      [](DirectSide& side, Board& board) {
        std::vector<std::uint8_t> memory(kOctets, 0);
        side.publish_qp();
        Prng prng(1);
        for (std::uint32_t round = 0; round < kRounds; ++round) {
          const wire::RKey key{(round + 1) << 8};
          side.publish_memory(memory.data(), memory.size(), key);
          board.key.store(key.value, std::memory_order_release);
          board.stage = 1;
          const auto until = now_ns() + static_cast<std::int64_t>(prng.below(200'000));
          while (now_ns() < until) {
          }
          if (!side.link->retire(key)) return 2;
          const std::uint64_t before = prng.next();
          for (std::size_t i = 0; i + 8 <= kOctets; i += 4096) store_native(memory.data() + i, before);
          const auto quiet = now_ns() + 30'000;
          while (now_ns() < quiet) {
          }
          for (std::size_t i = 0; i + 8 <= kOctets; i += 4096) {
            if (load_native<std::uint64_t>(memory.data() + i) == before) continue;
            board.stage = 2;
            return 3;
          }
        }
        board.stage = 2;
        return wait_for(board.other_stage, 1) ? 0 : 4;
      },
      [](DirectSide& side, Board& board) {
        STEP(1, wait_for(board.stage, 1));
        STEP(2, side.meet());
        const std::vector<std::uint8_t> data(kOctets, 0x5a);
        while (board.stage.load() < 2) {
          const wire::RKey key{board.key.load(std::memory_order_acquire)};
          static_cast<void>(side.write(kAddress, data.data(), data.size(), key));
          static_cast<void>(side.write(kAddress + 4096, data.data(), 8, key));
        }
        board.other_stage = 1;
        STEP(3, counter(*side.link, "shm_direct_done") > 100);
        STEP(4, counter(*side.link, "shm_direct_not_listed") > 10);
        return 0;
      });
}

struct Holder {
  explicit Holder(ShmLink& target, std::uint32_t party = 0) {
    auto pair = ShmChannel::create(kRingOctetsMin).value();
    number = target.add_channel(std::move(pair.own), party).value();
    end.emplace(ShmChannel::open(std::move(pair.peer_memory), std::move(pair.peer_doorbell)).value());
    end->control(1).in_use.store(7);
  }
  std::uint32_t number = 0;
  std::optional<ShmChannel> end;
};

TEST(Direct, RetiringDoesNotWaitForTheDead) {
  auto target = ShmLink::create().value();
  ASSERT_TRUE(target->enable_direct().ok());
  Holder holder(*target);
  ASSERT_TRUE(target->publish(DirectKey{.rkey = kRkey}));
  holder.end.reset();
  const auto start = now_ns();
  EXPECT_TRUE(target->retire(kRkey));
  EXPECT_LT(now_ns() - start, ShmLink::kRetireWait.ns / 2);
  target->handle_doorbells();
  EXPECT_EQ(target->poll_lost(), holder.number);
}

// A peer that claims an access forever delays one release only, whatever channels it opens afterwards.
TEST(Direct, WhoHoldsOnIsWaitedForOnce) {
  auto target = ShmLink::create().value();
  ASSERT_TRUE(target->enable_direct().ok());
  const Holder holder(*target, 5);
  ASSERT_TRUE(target->publish(DirectKey{.rkey = kRkey}));
  auto start = now_ns();
  EXPECT_FALSE(target->retire(kRkey));
  EXPECT_GE(now_ns() - start, ShmLink::kRetireWait.ns);
  EXPECT_EQ(counter(*target, "shm_direct_retire_overdue"), 1u);
  EXPECT_EQ(target->poll_lost(), holder.number);
  const Holder again(*target, 5);
  ASSERT_TRUE(target->publish(DirectKey{.rkey = kRkey}));
  start = now_ns();
  EXPECT_TRUE(target->retire(kRkey));
  EXPECT_LT(now_ns() - start, ShmLink::kRetireWait.ns / 2);
}

}  // namespace rrdma::link::direct_test
