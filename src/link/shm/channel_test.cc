// A channel can be opened only from descriptors that an honest peer would pass.
#include "link/shm/channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>

namespace rrdma::link::channel_test {

constexpr unsigned kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

OwnedFd memory_of(std::size_t octets, unsigned seals) {
  OwnedFd fd(raw::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(raw::ftruncate(fd.get(), static_cast<std::int64_t>(octets)), 0);
  if (seals != 0) {
    EXPECT_EQ(raw::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  }
  return fd;
}

OwnedFd doorbell_end() {
  int ends[2];
  EXPECT_EQ(raw::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  raw::close(ends[1]);
  return OwnedFd(ends[0]);
}

ShmProblem problem_of(OwnedFd memory, OwnedFd doorbell) {
  auto opened = ShmChannel::open(std::move(memory), std::move(doorbell));
  return opened ? ShmProblem::kNone : opened.error().problem;
}

TEST(ShmChannel, BothSidesSeeTheSameMemory) {
  auto pair = ShmChannel::create(kRingOctetsMin).value();
  auto other = ShmChannel::open(std::move(pair.peer_memory), std::move(pair.peer_doorbell)).value();
  EXPECT_NE(other.own_direction(), pair.own.own_direction());
  EXPECT_EQ(other.ring_octets(), kRingOctetsMin);
  EXPECT_EQ(other.nonce(0), pair.own.nonce(0));
  EXPECT_NE(other.nonce(0), other.nonce(1));
  pair.own.ring(1)[kRingOctetsMin - 1] = 7;
  EXPECT_EQ(other.ring(1)[kRingOctetsMin - 1], 7);
  pair.own.control(1).armed.store(3);
  EXPECT_EQ(other.control(1).armed.load(), 3u);
}

TEST(ShmChannel, RingSizeIsBounded) {
  EXPECT_EQ(ShmChannel::create(kRingOctetsMin / 2).error().problem, ShmProblem::kRingSize);
  EXPECT_EQ(ShmChannel::create(kRingOctetsMin + 4096).error().problem, ShmProblem::kRingSize);
  EXPECT_EQ(ShmChannel::create(kRingOctetsMax * 2).error().problem, ShmProblem::kRingSize);
}

TEST(ShmChannel, MemoryThatCouldShrinkIsRefused) {
  const std::size_t octets = channel_octets(kRingOctetsMin);
  EXPECT_EQ(problem_of(memory_of(octets, 0), doorbell_end()), ShmProblem::kNotSealed);
  EXPECT_EQ(problem_of(memory_of(octets, F_SEAL_GROW | F_SEAL_SEAL), doorbell_end()), ShmProblem::kNotSealed);
}

TEST(ShmChannel, WhatIsNoMemoryOrNoSocketIsRefused) {
  EXPECT_EQ(problem_of(doorbell_end(), doorbell_end()), ShmProblem::kNotMemory);
  EXPECT_EQ(problem_of(OwnedFd(), doorbell_end()), ShmProblem::kNotMemory);
  EXPECT_EQ(problem_of(memory_of(4096, kAllSeals), memory_of(4096, 0)), ShmProblem::kDoorbell);
  EXPECT_EQ(problem_of(memory_of(4096, kAllSeals), OwnedFd(raw::eventfd(0, 0))), ShmProblem::kDoorbell);
}

TEST(ShmChannel, AWrongLayoutIsRefused) {
  EXPECT_EQ(problem_of(memory_of(4096, kAllSeals), doorbell_end()), ShmProblem::kLayout);
  EXPECT_EQ(problem_of(memory_of(channel_octets(kRingOctetsMin), kAllSeals), doorbell_end()),
            ShmProblem::kLayout);
  const auto refused_after = [](auto change) {
    auto pair = ShmChannel::create(kRingOctetsMin).value();
    auto* header = static_cast<ChannelHeader*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, pair.peer_memory.get(), 0));
    change(*header);
    ::munmap(header, 4096);
    return problem_of(std::move(pair.peer_memory), std::move(pair.peer_doorbell));
  };
  EXPECT_EQ(refused_after([](ChannelHeader&) {}), ShmProblem::kNone);
  EXPECT_EQ(refused_after([](ChannelHeader& header) { header.magic ^= 1; }), ShmProblem::kLayout);
  EXPECT_EQ(refused_after([](ChannelHeader& header) { ++header.version; }), ShmProblem::kLayout);
  EXPECT_EQ(refused_after([](ChannelHeader& header) { header.ring_octets *= 2; }), ShmProblem::kLayout);
  EXPECT_EQ(refused_after([](ChannelHeader& header) { header.ring_octets = 0; }), ShmProblem::kLayout);
}

TEST(ShmChannel, ADoorbellNeverBlocks) {
  auto pair = ShmChannel::create(kRingOctetsMin).value();
  // It does not matter what the peer does to its end or to the flags of ours.
  ASSERT_EQ(raw::fcntl(pair.own.doorbell(), F_SETFL, 0), 0);
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(pair.own.ring_doorbell());
  pair.peer_doorbell.reset();
  EXPECT_FALSE(pair.own.ring_doorbell());
}

}  // namespace rrdma::link::channel_test
