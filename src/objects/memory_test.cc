#include "objects/memory.h"

#include <gtest/gtest.h>

#include <set>
#include <unordered_set>

#include "base/prng.h"

namespace rrdma::objects::memory_test {

constexpr std::uint32_t kOwner = kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic | kWindowBind;
constexpr wire::Qpn kQpn{17};

class Memory : public testing::Test {
 protected:
  MemoryRegion& add(std::uint64_t length, std::uint32_t access, ProtectionDomain* pd = nullptr) {
    auto made = table_.register_region({.pd = pd != nullptr ? pd : &pd_,
                                        .host = buffer_,
                                        .length = length,
                                        .address = address_of(buffer_),
                                        .access = access});
    EXPECT_TRUE(made.ok());
    return **made;
  }
  static std::uint64_t address_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }
  AccessVerdict local(const MemoryRegion& r, std::uint64_t address, std::uint64_t length,
                      std::uint32_t need = 0) {
    return table_.check_local(pd_, wire::LKey{r.key}, address, length, need);
  }
  AccessVerdict remote(std::uint32_t key, std::uint64_t address, std::uint64_t length, std::uint32_t need,
                       wire::Qpn qpn = kQpn) {
    return table_.check_remote(pd_, qpn, wire::RKey{key}, address, length, need);
  }

  MemoryTable table_{42};
  ProtectionDomain pd_{.handle = 1};
  ProtectionDomain other_pd_{.handle = 2};
  alignas(64) std::uint8_t buffer_[256] = {};
};

TEST_F(Memory, ARegionGrantsItsOctetsAndNotOneMore) {
  const auto& region = add(100, kOwner);
  const std::uint64_t base = region.address;
  EXPECT_EQ(local(region, base, 100).host, buffer_);
  EXPECT_EQ(local(region, base + 99, 1).host, buffer_ + 99);
  EXPECT_EQ(local(region, base + 100, 0).cause, Cause::kNone);
  EXPECT_EQ(local(region, base + 99, 2).cause, Cause::kLocalOutOfBounds);
  EXPECT_EQ(local(region, base - 1, 1).cause, Cause::kLocalOutOfBounds);
  EXPECT_EQ(local(region, base, 101).cause, Cause::kLocalOutOfBounds);
  EXPECT_EQ(local(region, base + 101, 0).cause, Cause::kLocalOutOfBounds);
  EXPECT_EQ(local(region, base + 1, ~std::uint64_t{0}).cause, Cause::kLocalOutOfBounds);
  EXPECT_EQ(remote(region.key, base, 100, kRemoteRead).host, buffer_);
  EXPECT_EQ(remote(region.key, base + 1, 100, kRemoteRead).cause, Cause::kRemoteOutOfBounds);
  EXPECT_EQ(remote(region.key, base + 1, ~std::uint64_t{0}, kRemoteRead).cause, Cause::kRemoteOutOfBounds);
  EXPECT_EQ(remote(region.key, ~std::uint64_t{0}, 2, kRemoteRead).cause, Cause::kRemoteOutOfBounds);
}

TEST_F(Memory, ARenewableRegionTakesOtherMemoryAndAnotherVariantOfItsKey) {
  MemoryRegion& region = add(0, 0);
  region.renewable = true;
  const std::uint32_t first = region.key, second = MemoryTable::next_variant(first);
  const std::uint64_t at = address_of(buffer_);
  const RegionRequest request{
      .pd = &pd_, .host = buffer_, .length = 64, .address = at, .access = kRemoteRead};
  EXPECT_FALSE(table_.renew(region, first + 0x100, request));
  ASSERT_TRUE(table_.renew(region, second, request));
  EXPECT_FALSE(remote(first, at, 64, kRemoteRead).ok());
  EXPECT_TRUE(remote(second, at, 64, kRemoteRead).ok());
  EXPECT_FALSE(table_.invalidate(wire::RKey{second}, other_pd_, kQpn));
  EXPECT_TRUE(table_.invalidate(wire::RKey{second}, pd_, kQpn));
  EXPECT_FALSE(remote(second, at, 1, kRemoteRead).ok());
  EXPECT_TRUE(table_.renew(region, MemoryTable::next_variant(second), request));
  EXPECT_TRUE(table_.deregister(region).ok());
}

TEST_F(Memory, AnOrdinaryRegionCannotBeInvalidated) {
  const MemoryRegion& region = add(64, kOwner);
  EXPECT_FALSE(table_.invalidate(wire::RKey{region.key}, pd_, kQpn));
  EXPECT_TRUE(local(region, address_of(buffer_), 64).ok());
}

TEST_F(Memory, ARevokedRegionGrantsNothingAndCanBeDeregistered) {
  MemoryRegion& region = add(64, kOwner);
  MemoryWindow& window = *table_.allocate_window(pd_, WindowType::kType1).value();
  const std::uint64_t at = address_of(buffer_);
  const std::uint32_t bound = MemoryTable::next_variant(window.key);
  ASSERT_EQ(table_.bind_window(window, &region, at, 64, kRemoteRead, bound, {}), Cause::kNone);
  ASSERT_TRUE(remote(bound, at, 64, kRemoteRead).ok());
  table_.revoke(region.key);
  EXPECT_FALSE(local(region, at, 1).ok());
  EXPECT_FALSE(remote(region.key, at, 1, kRemoteRead).ok());
  EXPECT_FALSE(remote(bound, at, 1, kRemoteRead).ok());
  EXPECT_TRUE(table_.deregister(region).ok());
  table_.free_window(window);
}

TEST_F(Memory, AddressesAtTheEndOfTheAddressSpaceDoNotWrap) {
  constexpr std::uint64_t kLast64 = ~std::uint64_t{0} - 63;  // 64 bytes up to the very end
  auto made = table_.register_region(
      {.pd = &pd_, .host = buffer_, .length = 64, .address = kLast64, .access = kOwner});
  ASSERT_TRUE(made.ok());
  const MemoryRegion& region = **made;
  EXPECT_EQ(local(region, kLast64, 64).host, buffer_);
  EXPECT_EQ(local(region, ~std::uint64_t{0}, 1).host, buffer_ + 63);
  EXPECT_EQ(local(region, ~std::uint64_t{0}, 2).cause, Cause::kLocalOutOfBounds);
  EXPECT_EQ(local(region, 0, 1).cause, Cause::kLocalOutOfBounds);
  EXPECT_EQ(remote(region.key, kLast64 + 1, 64, kRemoteWrite).cause, Cause::kRemoteOutOfBounds);

  EXPECT_EQ(table_.register_region({.pd = &pd_, .host = buffer_, .length = 65, .address = kLast64}).error(),
            MemoryError::kLengthOverflow);
  EXPECT_EQ(table_.register_region({.pd = &pd_, .host = buffer_, .length = ~std::uint64_t{0}, .address = 2})
                .error(),
            MemoryError::kLengthOverflow);
}

// A program chooses the address for work requests freely, so the memory itself must be checked as well.
TEST_F(Memory, MemoryThatRunsPastTheAddressSpaceIsRefusedWhateverItsAddress) {
  EXPECT_EQ(table_.register_region({.pd = &pd_, .host = buffer_, .length = ~std::uint64_t{0}, .address = 0})
                .error(),
            MemoryError::kLengthOverflow);
  auto& region = add(64, kOwner);
  EXPECT_EQ(
      table_.reregister(region, {.pd = &pd_, .host = buffer_, .length = ~std::uint64_t{0} - 64, .address = 0})
          .error(),
      MemoryError::kLengthOverflow);
  EXPECT_EQ(region.length, 64u);
  // On-demand paging registers the whole address space.
  EXPECT_TRUE(
      table_.register_region({.pd = &pd_, .length = ~std::uint64_t{0}, .access = kOwner | kOnDemand}).ok());
}

TEST_F(Memory, LocalRights) {
  const auto& writable = add(16, kLocalWrite);
  const auto& readable = add(16, 0);
  EXPECT_TRUE(local(writable, writable.address, 16, kLocalWrite).ok());
  EXPECT_TRUE(local(readable, readable.address, 16, 0).ok());
  EXPECT_EQ(local(readable, readable.address, 16, kLocalWrite).cause, Cause::kLocalNotWritable);
}

// Every set of remote rights against every need.
TEST_F(Memory, RemoteRights) {
  constexpr std::uint32_t kBits[] = {kRemoteRead, kRemoteWrite, kRemoteAtomic, kFlushGlobal,
                                     kFlushPersistent};
  for (std::uint32_t set = 0; set < 32; ++set) {
    std::uint32_t access = kLocalWrite;
    for (unsigned i = 0; i < 5; ++i) access |= (set >> i & 1) != 0 ? kBits[i] : 0;
    auto& region = add(16, access);
    for (unsigned i = 0; i < 5; ++i) {
      EXPECT_EQ(remote(region.key, region.address, 8, kBits[i]).cause,
                (set >> i & 1) != 0 ? Cause::kNone : Cause::kRemoteAccessNotGranted);
    }
    ASSERT_TRUE(table_.deregister(region).ok());
  }
}

TEST_F(Memory, RemoteWriteAndAtomicNeedLocalWrite) {
  for (const std::uint32_t access : {kRemoteWrite, kRemoteAtomic}) {
    EXPECT_EQ(table_.register_region({.pd = &pd_, .host = buffer_, .length = 8, .access = access}).error(),
              MemoryError::kRemoteRightsNeedLocalWrite);
  }
  EXPECT_EQ(table_.register_region({.pd = &pd_, .host = buffer_, .length = 8, .access = 1u << 18}).error(),
            MemoryError::kUnknownAccessFlags);
  EXPECT_EQ(pd_.users, 0u);
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(Memory, DomainsAreSeparate) {
  const auto& foreign = add(16, kOwner, &other_pd_);
  EXPECT_EQ(local(foreign, foreign.address, 1).cause, Cause::kLocalKeyOtherDomain);
  EXPECT_EQ(remote(foreign.key, foreign.address, 1, kRemoteRead).cause, Cause::kRemoteKeyOtherDomain);
  EXPECT_EQ(pd_.users, 0u);
  EXPECT_EQ(other_pd_.users, 1u);
}

TEST_F(Memory, AStaleKeyAndANearMissFindNothing) {
  auto& region = add(16, kOwner);
  const std::uint32_t key = region.key;
  const std::uint64_t address = region.address;
  for (unsigned bit = 0; bit < 32; ++bit) {
    EXPECT_EQ(remote(key ^ 1u << bit, address, 1, kRemoteRead).cause, Cause::kRemoteKeyUnknown);
    EXPECT_EQ(table_.check_local(pd_, wire::LKey{key ^ 1u << bit}, address, 1, 0).cause,
              Cause::kLocalKeyUnknown);
  }
  ASSERT_TRUE(table_.deregister(region).ok());
  EXPECT_EQ(remote(key, address, 1, kRemoteRead).cause, Cause::kRemoteKeyUnknown);
  EXPECT_EQ(table_.check_local(pd_, wire::LKey{key}, address, 1, 0).cause, Cause::kLocalKeyUnknown);
  EXPECT_EQ(pd_.users, 0u);
  for (int i = 0; i < 10'000; ++i) {
    auto& next = add(16, kOwner);
    EXPECT_NE(next.key, key);
    ASSERT_TRUE(table_.deregister(next).ok());
  }
  EXPECT_EQ(table_.find_region(key), nullptr);
}

TEST_F(Memory, ZeroBasedRegionsStartAtZeroWhateverAddressCameWithThem) {
  const auto& region = add(64, kOwner | kZeroBased);
  EXPECT_EQ(region.address, 0u);
  EXPECT_EQ(local(region, 0, 64).host, buffer_);
  EXPECT_EQ(local(region, 10, 5).host, buffer_ + 10);
  EXPECT_EQ(local(region, 64, 1).cause, Cause::kLocalOutOfBounds);
  EXPECT_EQ(remote(region.key, 63, 1, kRemoteRead).host, buffer_ + 63);
  EXPECT_EQ(remote(region.key, address_of(buffer_), 1, kRemoteRead).cause, Cause::kRemoteOutOfBounds);
}

TEST_F(Memory, TheNullRegionTakesAllLocalAccessAndNoRemote) {
  auto made = table_.register_region({.pd = &pd_, .access = kOwner, .null_region = true});
  ASSERT_TRUE(made.ok());
  const MemoryRegion& region = **made;
  const AccessVerdict verdict = local(region, 0x1234, 1u << 30, kLocalWrite);
  EXPECT_TRUE(verdict.ok());
  EXPECT_TRUE(verdict.null_region);
  EXPECT_EQ(remote(region.key, 0, 1, kRemoteRead).cause, Cause::kRemoteAccessNotGranted);
  EXPECT_EQ(remote(region.key, 0, 1, kRemoteWrite).cause, Cause::kRemoteAccessNotGranted);
}

TEST_F(Memory, ReregisteringKeepsTheKeyAndChangesTheRest) {
  auto& region = add(100, kOwner);
  const std::uint32_t key = region.key;
  ASSERT_TRUE(table_
                  .reregister(region, {.pd = &other_pd_,
                                       .host = buffer_ + 128,
                                       .length = 50,
                                       .address = 0x5000,
                                       .access = kRemoteRead})
                  .ok());
  EXPECT_EQ(region.key, key);
  EXPECT_EQ(pd_.users, 0u);
  EXPECT_EQ(other_pd_.users, 1u);
  EXPECT_EQ(remote(key, 0x5000, 1, kRemoteRead).cause, Cause::kRemoteKeyOtherDomain);
  EXPECT_EQ(table_.check_remote(other_pd_, kQpn, {key}, 0x5031, 1, kRemoteRead).host, buffer_ + 128 + 0x31);
  EXPECT_EQ(table_.check_remote(other_pd_, kQpn, {key}, 0x5032, 1, kRemoteRead).cause,
            Cause::kRemoteOutOfBounds);
  EXPECT_EQ(table_.check_remote(other_pd_, kQpn, {key}, 0x5000, 1, kRemoteWrite).cause,
            Cause::kRemoteAccessNotGranted);

  // A refused change has no effect.
  EXPECT_FALSE(
      table_.reregister(region, {.pd = &pd_, .host = buffer_, .length = 8, .access = kRemoteWrite}).ok());
  EXPECT_EQ(region.pd, &other_pd_);
  EXPECT_EQ(region.length, 50u);
  EXPECT_EQ(other_pd_.users, 1u);
}

TEST_F(Memory, AHundredThousandRegionsHaveAHundredThousandKeys) {
  constexpr std::size_t kCount = 100'000;
  std::vector<MemoryRegion*> regions;
  std::unordered_set<std::uint32_t> uppers;
  for (std::size_t i = 0; i < kCount; ++i) {
    regions.push_back(&add(16, kOwner));
    EXPECT_TRUE(uppers.insert(regions.back()->key >> 8).second);
    EXPECT_NE(regions.back()->key >> 8, 0u);
  }
  EXPECT_EQ(table_.size(), kCount);
  EXPECT_EQ(pd_.users, kCount);
  for (std::size_t i = 0; i < kCount; i += 2) {
    const std::uint32_t key = regions[i]->key;
    ASSERT_TRUE(table_.deregister(*regions[i]).ok());
    EXPECT_EQ(table_.find_region(key), nullptr);
  }
  for (std::size_t i = 1; i < kCount; i += 2) ASSERT_EQ(table_.find_region(regions[i]->key), regions[i]);
  EXPECT_EQ(table_.size(), kCount / 2);
}

// Endless registering and deregistering must neither fill the table with stale entries nor slow it down.
TEST_F(Memory, ChurnKeepsTheTableWhole) {
  Prng prng(7);
  std::vector<MemoryRegion*> live;
  for (int i = 0; i < 200'000; ++i) {
    if (live.size() < 64 && (live.empty() || prng.below(2) == 0)) {
      live.push_back(&add(16, kOwner));
    } else {
      const auto victim = prng.below(live.size());
      ASSERT_TRUE(table_.deregister(*live[victim]).ok());
      live[victim] = live.back();
      live.pop_back();
    }
    ASSERT_EQ(table_.size(), live.size());
  }
  for (const auto* region : live) EXPECT_EQ(table_.find_region(region->key), region);
}

TEST_F(Memory, TheSecretDecidesTheKeys) {
  MemoryTable same(42), different(43);
  ProtectionDomain pd;
  const RegionRequest request{.pd = &pd, .host = buffer_, .length = 16};
  int equal = 0;
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t key = add(16, 0).key;
    EXPECT_EQ((*same.register_region(request))->key, key);
    equal += (*different.register_region(request))->key == key;
  }
  EXPECT_LE(equal, 1);
}

// Peers receive keys by design. A dozen raw outputs of the generator would reveal its state, and with it
// every other key. No key may therefore be a part of that output.
TEST_F(Memory, KeysDoNotGiveTheGeneratorAway) {
  Prng prng(42);
  std::set<std::uint32_t> outputs;
  for (int i = 0; i < 256; ++i) {
    const std::uint64_t word = prng.next();
    for (const unsigned shift : {0u, 32u}) outputs.insert(static_cast<std::uint32_t>(word >> shift));
  }
  int seen = 0;
  for (int i = 0; i < 64; ++i) seen += static_cast<int>(outputs.count(add(16, 0).key));
  EXPECT_EQ(seen, 0);
}

// Each bit of a key is set half the time: 2000 of 4000 keys, +- 6 sigma.
TEST_F(Memory, KeysSpreadOverAllBits) {
  int ones[32] = {};
  for (int i = 0; i < 4000; ++i) {
    const std::uint32_t key = add(16, 0).key;
    for (unsigned bit = 0; bit < 32; ++bit) ones[bit] += key >> bit & 1;
  }
  for (const int count : ones) EXPECT_NEAR(count, 2000, 190);
}

TEST_F(Memory, EveryErrorHasASentence) {
  for (int i = 0; i <= static_cast<int>(MemoryError::kStillBound); ++i) {
    EXPECT_GT(describe(static_cast<MemoryError>(i)).size(), 20u);
  }
}

}  // namespace rrdma::objects::memory_test
