// Memory windows: binding, rebinding and invalidation, and the access that they grant to a peer.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "objects/memory.h"

namespace rrdma::objects::memory_window_test {

constexpr std::uint32_t kOwner = kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic | kWindowBind;
constexpr wire::Qpn kQpn{17};
constexpr wire::Qpn kOtherQpn{18};
constexpr std::uint64_t kBase = 0x10000;

class Windows : public testing::Test {
 protected:
  MemoryRegion& region(std::uint32_t access = kOwner, ProtectionDomain* pd = nullptr) {
    auto made = table_.register_region({.pd = pd != nullptr ? pd : &pd_,
                                        .host = buffer_,
                                        .length = sizeof buffer_,
                                        .address = kBase,
                                        .access = access});
    EXPECT_TRUE(made.ok());
    return **made;
  }
  MemoryWindow& window(WindowType type) {
    auto made = table_.allocate_window(pd_, type);
    EXPECT_TRUE(made.ok());
    return **made;
  }
  Cause bind(MemoryWindow& w, MemoryRegion* r, std::uint64_t address, std::uint64_t length,
             std::uint32_t access) {
    return table_.bind_window(w, r, address, length, access, MemoryTable::next_variant(w.key), kQpn);
  }
  AccessVerdict remote(std::uint32_t key, std::uint64_t address, std::uint64_t length, std::uint32_t need,
                       wire::Qpn qpn = kQpn) {
    return table_.check_remote(pd_, qpn, wire::RKey{key}, address, length, need);
  }

  struct Lock final : Exclusion {
    void lock() override {
      if (before != nullptr) std::exchange(before, nullptr)();
      mutex.lock();
      ++taken;
    }
    void unlock() override { mutex.unlock(); }
    std::function<void()> before;  // runs just before the lock is taken, as another lane
    std::mutex mutex;
    int taken = 0;
  };

  Lock lock_;
  MemoryTable table_{42, &lock_};
  ProtectionDomain pd_{.handle = 1};
  ProtectionDomain other_pd_{.handle = 2};
  std::uint8_t buffer_[256] = {};
};

constexpr WindowType kBoth[] = {WindowType::kType1, WindowType::kType2};

TEST_F(Windows, AnUnboundWindowGrantsNothing) {
  for (const auto type : kBoth) {
    const auto& w = window(type);
    EXPECT_EQ(remote(w.key, 0, 0, 0).cause, Cause::kRemoteKeyUnknown);
    EXPECT_EQ(remote(w.key, kBase, 1, kRemoteRead).cause, Cause::kRemoteKeyUnknown);
  }
  EXPECT_EQ(pd_.users, 2u);
}

TEST_F(Windows, ABoundWindowGrantsItsPartWithItsOwnRights) {
  for (const auto type : kBoth) {
    auto& r = region();
    auto& w = window(type);
    ASSERT_EQ(bind(w, &r, kBase + 16, 32, kRemoteRead), Cause::kNone);
    EXPECT_EQ(remote(w.key, kBase + 16, 32, kRemoteRead).host, buffer_ + 16);
    EXPECT_EQ(remote(w.key, kBase + 47, 1, kRemoteRead).host, buffer_ + 47);
    EXPECT_EQ(remote(w.key, kBase + 15, 1, kRemoteRead).cause, Cause::kRemoteOutOfBounds);
    EXPECT_EQ(remote(w.key, kBase + 47, 2, kRemoteRead).cause, Cause::kRemoteOutOfBounds);
    EXPECT_EQ(remote(w.key, kBase + 17, ~std::uint64_t{0}, kRemoteRead).cause, Cause::kRemoteOutOfBounds);
    EXPECT_EQ(remote(w.key, kBase + 16, 1, kRemoteWrite).cause, Cause::kRemoteAccessNotGranted);
    EXPECT_EQ(remote(w.key, kBase + 16, 1, kRemoteAtomic).cause, Cause::kRemoteAccessNotGranted);
    EXPECT_EQ(table_.check_local(pd_, wire::LKey{w.key}, kBase + 16, 1, 0).cause, Cause::kLocalKeyUnknown);
  }
}

// IBTA C10-74: the region's remote rights do not matter; its local write right does.
TEST_F(Windows, RightsComeFromTheBindAndNeedLocalWriteOfTheRegion) {
  for (const auto type : kBoth) {
    auto& no_remote = region(kLocalWrite | kWindowBind);
    auto& w = window(type);
    ASSERT_EQ(bind(w, &no_remote, kBase, 8, kRemoteWrite | kRemoteRead), Cause::kNone);
    EXPECT_TRUE(remote(w.key, kBase, 8, kRemoteWrite).ok());

    auto& read_only = region(kRemoteRead | kWindowBind);
    for (const std::uint32_t access : {kRemoteWrite, kRemoteAtomic}) {
      EXPECT_EQ(bind(window(type), &read_only, kBase, 8, access), Cause::kWindowBindRefused);
    }
    EXPECT_EQ(bind(window(type), &read_only, kBase, 8, kRemoteRead), Cause::kNone);
    EXPECT_EQ(bind(window(type), &no_remote, kBase, 8, kLocalWrite), Cause::kWindowBindRefused);
    EXPECT_EQ(bind(window(type), &no_remote, kBase, 8, kWindowBind), Cause::kWindowBindRefused);
  }
}

TEST_F(Windows, BindsThatMustBeRefused) {
  auto& r = region();
  for (const auto type : kBoth) {
    auto& w = window(type);
    const std::uint32_t key = w.key;
    EXPECT_EQ(bind(w, &region(kLocalWrite), kBase, 8, kRemoteRead), Cause::kWindowBindRefused);  // C10-73
    EXPECT_EQ(bind(w, &region(kOwner, &other_pd_), kBase, 8, kRemoteRead),
              Cause::kWindowBindRefused);  // C10-72
    EXPECT_EQ(bind(w, &region(kOwner | kZeroBased), 0, 8, kRemoteRead), Cause::kWindowBindRefused);
    EXPECT_EQ(bind(w, nullptr, kBase, 8, kRemoteRead), Cause::kWindowBindRefused);
    EXPECT_EQ(bind(w, &r, kBase - 1, 8, kRemoteRead), Cause::kWindowBindRefused);  // C10-75
    EXPECT_EQ(bind(w, &r, kBase + 249, 8, kRemoteRead), Cause::kWindowBindRefused);
    EXPECT_EQ(bind(w, &r, kBase + 8, ~std::uint64_t{0}, kRemoteRead), Cause::kWindowBindRefused);
    EXPECT_EQ(w.key, key);
    EXPECT_EQ(w.region, nullptr);
  }
  EXPECT_EQ(r.windows, 0u);
}

// The null region has no bytes that a peer could reach.
TEST_F(Windows, TheNullRegionTakesNoWindow) {
  auto made = table_.register_region(
      {.pd = &pd_, .length = ~std::uint64_t{0}, .access = kOwner, .null_region = true});
  ASSERT_TRUE(made.ok());
  for (const auto type : kBoth)
    EXPECT_EQ(bind(window(type), *made, 0x1000, 8, kRemoteRead), Cause::kWindowBindRefused);
}

TEST_F(Windows, Type1RebindsAndEachOldKeyDies) {
  auto& first = region();
  auto& second = region();
  auto& w = window(WindowType::kType1);
  std::uint32_t old = w.key;
  for (int i = 0; i < 600; ++i) {  // the variant wraps
    auto& target = i % 2 == 0 ? first : second;
    ASSERT_EQ(bind(w, &target, kBase + static_cast<unsigned>(i % 8), 8, kRemoteWrite), Cause::kNone);
    EXPECT_EQ(w.key >> 8, old >> 8);
    EXPECT_EQ(remote(old, kBase + 8, 1, kRemoteWrite).cause, Cause::kRemoteKeyUnknown);
    EXPECT_TRUE(remote(w.key, kBase + 7, 1, kRemoteWrite).ok());
    EXPECT_TRUE(remote(w.key, kBase + 7, 1, kRemoteWrite, kOtherQpn).ok());  // any QP of the domain
    EXPECT_EQ(first.windows + second.windows, 1u);
    EXPECT_EQ(target.windows, 1u);
    old = w.key;
  }
  EXPECT_EQ(table_.size(), 3u);
}

TEST_F(Windows, Type1IsUnboundByLengthZero) {
  auto& r = region();
  auto& w = window(WindowType::kType1);
  ASSERT_EQ(bind(w, &r, kBase, 8, kRemoteWrite), Cause::kNone);
  const std::uint32_t bound = w.key;
  ASSERT_EQ(bind(w, nullptr, 0, 0, 0), Cause::kNone);
  EXPECT_EQ(r.windows, 0u);
  EXPECT_EQ(remote(bound, kBase, 1, kRemoteWrite).cause, Cause::kRemoteKeyUnknown);
  EXPECT_EQ(remote(w.key, kBase, 1, kRemoteWrite).cause, Cause::kRemoteKeyUnknown);
  EXPECT_TRUE(table_.deregister(r).ok());
}

TEST_F(Windows, Type1IsNeverZeroBasedAndCannotBeInvalidated) {
  auto& r = region();
  auto& w = window(WindowType::kType1);
  EXPECT_EQ(bind(w, &r, kBase, 8, kRemoteRead | kZeroBased), Cause::kWindowBindRefused);
  ASSERT_EQ(bind(w, &r, kBase, 8, kRemoteRead), Cause::kNone);
  EXPECT_FALSE(table_.invalidate({w.key}, pd_, kQpn));
  table_.invalidate_windows_of(kQpn);
  table_.invalidate_windows_of(wire::Qpn());
  EXPECT_TRUE(remote(w.key, kBase, 1, kRemoteRead).ok());
}

TEST_F(Windows, Type2BelongsToTheQpThatBoundIt) {
  auto& r = region();
  auto& w = window(WindowType::kType2);
  const std::uint32_t key = (w.key & ~0xffu) | 0x5a;
  ASSERT_EQ(table_.bind_window(w, &r, kBase, 8, kRemoteRead, key, kQpn), Cause::kNone);
  EXPECT_EQ(w.key, key);
  EXPECT_TRUE(remote(key, kBase, 8, kRemoteRead).ok());
  EXPECT_EQ(remote(key, kBase, 8, kRemoteRead, kOtherQpn).cause, Cause::kRemoteKeyOtherQueuePair);
  EXPECT_EQ(table_.check_remote(other_pd_, kQpn, {key}, kBase, 8, kRemoteRead).cause,
            Cause::kRemoteKeyOtherDomain);
}

TEST_F(Windows, OfTheKeyThatABindAsksForOnlyTheLowOctetCounts) {
  for (const auto type : kBoth) {
    auto& r = region();
    auto& w = window(type);
    const std::uint32_t old_key = w.key;
    const std::uint32_t wanted = ~w.key ^ 0x5a;
    ASSERT_EQ(table_.bind_window(w, &r, kBase, 8, kRemoteRead, wanted, kQpn), Cause::kNone);
    EXPECT_EQ(w.key, (old_key & ~0xffu) | (wanted & 0xff));
    EXPECT_TRUE(remote(w.key, kBase, 8, kRemoteRead).ok());
    EXPECT_EQ(remote(old_key, kBase, 8, kRemoteRead).cause, Cause::kRemoteKeyUnknown);
    EXPECT_EQ(remote(wanted, kBase, 8, kRemoteRead).cause, Cause::kRemoteKeyUnknown);
    EXPECT_EQ(table_.find_window(w.key), &w);
  }
}

TEST_F(Windows, Type2IsBoundAgainOnlyAfterItWasInvalidated) {
  auto& r = region();
  auto& w = window(WindowType::kType2);
  ASSERT_EQ(bind(w, &r, kBase, 8, kRemoteRead), Cause::kNone);
  const std::uint32_t key = w.key;
  EXPECT_EQ(bind(w, &r, kBase + 8, 8, kRemoteRead), Cause::kWindowBindRefused);  // o10-37.2.30
  EXPECT_EQ(w.key, key);

  EXPECT_FALSE(table_.invalidate({key}, pd_, kOtherQpn));
  EXPECT_FALSE(table_.invalidate({key}, other_pd_, kQpn));
  EXPECT_FALSE(table_.invalidate({key ^ 1}, pd_, kQpn));
  EXPECT_FALSE(table_.invalidate({r.key}, pd_, kQpn));
  EXPECT_TRUE(remote(key, kBase, 8, kRemoteRead).ok());

  EXPECT_TRUE(table_.invalidate({key}, pd_, kQpn));
  EXPECT_EQ(r.windows, 0u);
  EXPECT_EQ(remote(key, kBase, 8, kRemoteRead).cause, Cause::kRemoteKeyUnknown);
  EXPECT_FALSE(table_.invalidate({key}, pd_, kQpn));

  ASSERT_EQ(table_.bind_window(w, &r, kBase + 8, 8, kRemoteRead, MemoryTable::next_variant(key), kOtherQpn),
            Cause::kNone);
  EXPECT_EQ(remote(key, kBase + 8, 8, kRemoteRead, kOtherQpn).cause, Cause::kRemoteKeyUnknown);
  EXPECT_TRUE(remote(w.key, kBase + 8, 8, kRemoteRead, kOtherQpn).ok());
}

// o10-37.2.40: a type 2 window is unbound by invalidation, never by a bind.
TEST_F(Windows, Type2IsNotBoundWithLengthZero) {
  auto& r = region();
  auto& w = window(WindowType::kType2);
  const std::uint32_t key = w.key;
  EXPECT_EQ(bind(w, &r, kBase, 0, kRemoteRead), Cause::kWindowBindRefused);
  EXPECT_EQ(bind(w, nullptr, 0, 0, 0), Cause::kWindowBindRefused);
  EXPECT_EQ(w.key, key);
}

TEST_F(Windows, Type2MayBeZeroBased) {
  auto& r = region();
  auto& w = window(WindowType::kType2);
  ASSERT_EQ(bind(w, &r, kBase + 100, 20, kRemoteRead | kZeroBased), Cause::kNone);
  EXPECT_EQ(remote(w.key, 0, 20, kRemoteRead).host, buffer_ + 100);
  EXPECT_EQ(remote(w.key, 19, 1, kRemoteRead).host, buffer_ + 119);
  EXPECT_EQ(remote(w.key, 20, 1, kRemoteRead).cause, Cause::kRemoteOutOfBounds);
  EXPECT_EQ(remote(w.key, kBase + 100, 1, kRemoteRead).cause, Cause::kRemoteOutOfBounds);
}

TEST_F(Windows, TheWindowsOfAQpDieWithIt) {
  auto& r = region();
  MemoryWindow* mine[3];
  for (auto& w : mine) {
    w = &window(WindowType::kType2);
    ASSERT_EQ(bind(*w, &r, kBase, 8, kRemoteRead), Cause::kNone);
  }
  auto& foreign = window(WindowType::kType2);
  ASSERT_EQ(table_.bind_window(foreign, &r, kBase, 8, kRemoteRead, foreign.key, kOtherQpn), Cause::kNone);
  EXPECT_EQ(r.windows, 4u);
  table_.invalidate_windows_of(kQpn);
  EXPECT_EQ(r.windows, 1u);
  for (const auto* w : mine) EXPECT_EQ(remote(w->key, kBase, 8, kRemoteRead).cause, Cause::kRemoteKeyUnknown);
  EXPECT_TRUE(remote(foreign.key, kBase, 8, kRemoteRead, kOtherQpn).ok());
}

TEST_F(Windows, ARegionWithBoundWindowsStays) {
  for (const auto type : kBoth) {
    auto& r = region();
    auto& w = window(type);
    ASSERT_EQ(bind(w, &r, kBase, 8, kRemoteRead), Cause::kNone);
    EXPECT_EQ(table_.deregister(r).error(), MemoryError::kStillBound);
    EXPECT_EQ(table_.reregister(r, {.pd = &pd_, .host = buffer_, .length = 8, .address = kBase}).error(),
              MemoryError::kStillBound);
    EXPECT_TRUE(remote(w.key, kBase, 8, kRemoteRead).ok());
    const std::uint32_t key = w.key;
    table_.free_window(w);
    EXPECT_EQ(remote(key, kBase, 8, kRemoteRead).cause, Cause::kRemoteKeyUnknown);
    EXPECT_EQ(r.windows, 0u);
    EXPECT_TRUE(table_.deregister(r).ok());
  }
  EXPECT_EQ(pd_.users, 0u);
  EXPECT_EQ(table_.size(), 0u);
}

// One lane keeps rebinding a type 1 window to two regions in turn, while another lane looks up its key and
// that of a region. A key grants only what it was bound to, and every loss of access is counted.
TEST_F(Windows, LookupsOfOneLaneBesideBindsOfAnother) {
  constexpr std::uint64_t kRounds = 20'000;
  auto& even = region();
  std::uint8_t elsewhere[sizeof buffer_] = {};
  auto& odd = **table_.register_region(
      {.pd = &pd_, .host = elsewhere, .length = sizeof elsewhere, .address = kBase, .access = kOwner});
  auto& w = window(WindowType::kType1);
  // Each bind takes the next key; its parity selects the region.
  const auto bind_next = [&] {
    const bool is_even = MemoryTable::next_variant(w.key) % 2 == 0;
    return bind(w, is_even ? &even : &odd, kBase + 32, 64, kRemoteRead) == Cause::kNone;
  };
  std::atomic<std::uint32_t> key{w.key};
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> granted{0}, wrong{0};
  std::thread reader([&] {
    while (!done) {
      const std::uint32_t asked = key;
      const AccessVerdict verdict = remote(asked, kBase + 64, 16, kRemoteRead);
      if (verdict.ok()) {
        ++granted;
        wrong += verdict.host != (asked % 2 == 0 ? buffer_ : elsewhere) + 64;
      } else {
        wrong += verdict.cause != Cause::kRemoteKeyUnknown;
      }
      wrong += !remote(even.key, kBase, 1, kRemoteRead).ok();
    }
  });
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    wrong += !bind_next();
    key = w.key;
  }
  // Keep the last binding until the reader has seen it.
  const std::uint64_t before = granted;
  while (granted == before) std::this_thread::yield();
  done = true;
  reader.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(table_.revocations(), kRounds - 1);
}

// The worst case: the window is rebound after the lookup by key and before its state is read.
TEST_F(Windows, AKeyThatIsRebornWhileItIsLookedUpGrantsNothing) {
  auto& r = region();
  auto& w = window(WindowType::kType1);
  ASSERT_EQ(bind(w, &r, kBase + 32, 64, kRemoteRead), Cause::kNone);
  const std::uint32_t old = w.key;
  lock_.before = [&] { EXPECT_EQ(bind(w, &r, kBase + 32, 64, kRemoteRead), Cause::kNone); };
  EXPECT_EQ(remote(old, kBase + 64, 16, kRemoteRead).cause, Cause::kRemoteKeyUnknown);
  EXPECT_TRUE(remote(w.key, kBase + 64, 16, kRemoteRead).ok());
  const int taken = lock_.taken;
  EXPECT_TRUE(remote(r.key, kBase, 1, kRemoteRead).ok());
  EXPECT_EQ(lock_.taken, taken) << "an access to a region waits for nobody";
}

TEST_F(Windows, ListenersHearOfRegionsThatThereAreAndOfWindowsAsTheyCome) {
  struct Heard final : KeyListener {
    void on_region_opened(const MemoryRegion& region) override { opened.push_back(region.key); }
    void on_window_opened(const MemoryWindow& window) override { opened.push_back(window.key); }
    void on_region_closed(const MemoryRegion& region) override { closed.push_back(region.key); }
    void on_window_closed(const MemoryWindow& window) override { closed.push_back(window.key); }
    std::vector<std::uint32_t> opened, closed;
  };
  Heard early, late;
  table_.add_listener(early);
  auto& r = region();
  table_.add_listener(late);
  auto& w = window(WindowType::kType2);
  ASSERT_EQ(bind(w, &r, kBase, 16, kRemoteRead), Cause::kNone);
  const std::uint32_t bound = w.key;
  table_.remove_listener(early);
  table_.invalidate_windows_of(kQpn);
  const std::uint32_t region_key = r.key;
  EXPECT_TRUE(table_.deregister(r).ok());
  EXPECT_EQ(early.opened, (std::vector<std::uint32_t>{region_key, bound}));
  EXPECT_EQ(late.opened, early.opened);
  EXPECT_TRUE(early.closed.empty());
  EXPECT_EQ(late.closed, (std::vector<std::uint32_t>{bound, region_key}));
  table_.remove_listener(late);
}

}  // namespace rrdma::objects::memory_window_test
