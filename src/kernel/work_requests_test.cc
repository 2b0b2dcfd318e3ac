#include "kernel/work_requests.h"

#include <gtest/gtest.h>
#include <rrdma_abi.h>

#include <cstring>

#include "base/prng.h"

namespace rrdma::kernel::work_requests_test {

using objects::SendOpcode;

constexpr QueueLimits kLimits{.sges = 4, .inline_octets = 64};

SlotCopy slot_of(const RxeSend& send, std::initializer_list<RxeSge> list = {}) {
  SlotCopy slot{};
  std::memcpy(slot.data(), &send, sizeof send);
  std::size_t at = sizeof send;
  for (const RxeSge& sge : list) {
    std::memcpy(slot.data() + at, &sge, sizeof sge);
    at += sizeof sge;
  }
  return slot;
}

RxeSend write_of(std::uint32_t sges) {
  RxeSend send{};
  send.wr_id = 77;
  send.opcode = static_cast<std::uint32_t>(SendOpcode::kWrite);
  send.send_flags = objects::kSendSignaled;
  send.rdma = {.remote_address = 0x1234, .rkey = 0x5678, .reserved = 0};
  send.dma.num_sge = sges;
  return send;
}

TEST(KernelRequests, AWriteKeepsItsFields) {
  SlotCopy slot = slot_of(write_of(2), {{10, 20, 30}, {40, 50, 60}});
  ParsedSend parsed;
  ASSERT_TRUE(parse_send(slot, false, kLimits, parsed));
  const objects::SendEntry& entry = parsed.request.entry;
  EXPECT_EQ(entry.wr_id, 77u);
  EXPECT_EQ(entry.opcode, SendOpcode::kWrite);
  EXPECT_EQ(entry.remote_address, 0x1234u);
  EXPECT_EQ(entry.rkey.value, 0x5678u);
  ASSERT_EQ(parsed.request.list.size(), 2u);
  EXPECT_EQ(parsed.request.list[1].address, 40u);
  EXPECT_EQ(parsed.request.list[1].length, 50u);
  EXPECT_EQ(parsed.request.list[1].lkey.value, 60u);
}

// The provider of Debian 12 sets no flag for it, and the place of inline data holds the word.
TEST(KernelRequests, AnAtomicWriteCarriesItsWord) {
  RxeSend send = write_of(0);
  send.opcode = static_cast<std::uint32_t>(SendOpcode::kAtomicWrite);
  send.dma.length = 4000;  // hostile: it is always a word
  SlotCopy slot = slot_of(send, {{.address = 0x1122334455667788, .length = 0, .lkey = 0}});
  ParsedSend parsed;
  ASSERT_TRUE(parse_send(slot, false, kLimits, parsed));
  EXPECT_EQ(parsed.request.entry.opcode, SendOpcode::kAtomicWrite);
  EXPECT_EQ(parsed.request.entry.remote_address, 0x1234u);
  EXPECT_EQ(parsed.request.entry.rkey.value, 0x5678u);
  ASSERT_TRUE(parsed.request.entry.is_inline());
  ASSERT_EQ(parsed.request.list.size(), 1u);
  EXPECT_EQ(parsed.request.list[0].length, 8u);
  std::uint64_t word = 0;
  std::memcpy(&word, reinterpret_cast<const void*>(parsed.request.list[0].address), sizeof word);
  EXPECT_EQ(word, 0x1122334455667788u);
  send.opcode = static_cast<std::uint32_t>(SendOpcode::kFlush);
  SlotCopy flush = slot_of(send);
  EXPECT_FALSE(parse_send(flush, false, kLimits, parsed)) << "not offered";
}

TEST(KernelRequests, ABindNamesWindowAndRegionAndHasNoList) {
  RxeSend send{};
  send.opcode = static_cast<std::uint32_t>(SendOpcode::kBindWindow);
  send.registration = {.address = 0x1000, .length = 64, .region = 7, .window_key = 8, .key = 9, .access = 3};
  send.dma.num_sge = kLimits.sges + 1;  // the provider leaves what was there
  SlotCopy slot = slot_of(send);
  ParsedSend parsed;
  ASSERT_TRUE(parse_send(slot, false, kLimits, parsed));
  const objects::SendEntry& entry = parsed.request.entry;
  EXPECT_EQ(entry.rkey.value, 9u);
  EXPECT_EQ(entry.bind.window_key, 8u);
  EXPECT_EQ(entry.bind.region_key, 7u);
  EXPECT_EQ(entry.bind.address, 0x1000u);
  EXPECT_EQ(entry.bind.length, 64u);
  EXPECT_EQ(entry.bind.access, 2u) << "local write says nothing for a window";
  EXPECT_TRUE(parsed.request.list.empty());
}

TEST(KernelRequests, AListOrInlineDataBeyondTheQueueIsRefused) {
  ParsedSend parsed;
  SlotCopy long_list = slot_of(write_of(kLimits.sges + 1));
  EXPECT_FALSE(parse_send(long_list, false, kLimits, parsed));
  RxeSend send = write_of(0);
  send.send_flags |= objects::kSendInline;
  send.dma.length = kLimits.inline_octets;
  SlotCopy fits = slot_of(send);
  EXPECT_TRUE(parse_send(fits, false, kLimits, parsed));
  send.dma.length = kLimits.inline_octets + 1;
  SlotCopy too_long = slot_of(send);
  EXPECT_FALSE(parse_send(too_long, false, kLimits, parsed));
}

TEST(KernelRequests, OnlyAKernelQueueHasGrants) {
  QueueLimits limits = kLimits;
  limits.grant_key = 99;
  SlotCopy slot = slot_of(write_of(2), {{10, 20, RRDMA_GRANT_KEY}, {40, 50, 60}});
  ParsedSend parsed;
  ASSERT_TRUE(parse_send(slot, false, limits, parsed));
  EXPECT_EQ(parsed.request.list[0].lkey.value, 99u);
  EXPECT_EQ(parsed.request.list[1].lkey.value, 60u);
  ASSERT_TRUE(parse_send(slot, false, kLimits, parsed));
  EXPECT_EQ(parsed.request.list[0].lkey.value, RRDMA_GRANT_KEY);
}

TEST(KernelRequests, AMalformedReceiveHasAListThatNothingPasses) {
  RxeReceive receive{};
  receive.wr_id = 5;
  receive.dma.num_sge = 1000;
  SlotCopy slot{};
  std::memcpy(slot.data(), &receive, sizeof receive);
  ParsedReceive parsed;
  parse_receive(slot, kLimits, parsed);
  EXPECT_EQ(parsed.wr_id, 5u);
  EXPECT_EQ(parsed.count, 1u);
  EXPECT_EQ(parsed.list[0].lkey.value, 0u);
  EXPECT_EQ(parsed.list[0].length, ~0u);
}

TEST(KernelRequests, AnyContentIsParsedOrRefused) {
  Prng prng(46);
  for (int i = 0; i < 20'000; ++i) {
    SlotCopy slot;
    for (std::uint8_t& octet : slot) octet = static_cast<std::uint8_t>(prng.below(256));
    RxeSend send;
    std::memcpy(&send, slot.data(), sizeof send);
    send.opcode = static_cast<std::uint32_t>(prng.below(12));
    if (prng.below(2) == 0) send.dma.num_sge = static_cast<std::uint32_t>(prng.below(8));
    if (prng.below(2) == 0) send.dma.length = static_cast<std::uint32_t>(prng.below(2048));
    std::memcpy(slot.data(), &send, sizeof send);
    ParsedSend parsed;
    if (!parse_send(slot, prng.below(2) == 0, kLimits, parsed)) continue;
    EXPECT_LE(parsed.request.list.size(), kLimits.sges);
    if (parsed.request.entry.is_inline()) {
      EXPECT_LE(objects::total_length(parsed.request.list), kLimits.inline_octets);
    }
  }
}

TEST(KernelRequests, ADatagramsRouteComesFromItsSocketAddresses) {
  RxeAddress address{};
  address.network_type = 1;
  const std::uint8_t local[] = {10, 77, 0, 2};
  std::memcpy(address.local_socket + 4, local, sizeof local);
  address.remote[10] = address.remote[11] = 0xff;
  address.remote[15] = 1;
  address.hop_limit = 3;
  const DatagramRoute route = route_of(address);
  EXPECT_EQ(route.local, wire::gid_of_ipv4({10, 77, 0, 2}));
  EXPECT_EQ(route.remote, wire::gid_of_ipv4({0, 0, 0, 1}));
  EXPECT_EQ(route.hop_limit, 3);
}

}  // namespace rrdma::kernel::work_requests_test
