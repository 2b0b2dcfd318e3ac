// place(): programs spin on the last byte or the last word of a message, and then read the rest without
// further synchronization. A second thread does the same here. Each detector is first tested with a faulty
// writer, which it must catch.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/guarded_copy.h"
#include "objects/memory.h"
#include "objects/staging.h"

namespace rrdma::objects::place_test {

constexpr auto kTimeForOneSize = std::chrono::milliseconds(150);

class Spin {
 public:
  void operator()() {
    if (++count_ % 1024 == 0) std::this_thread::yield();
  }

 private:
  unsigned count_ = 0;
};

// The reader models a program without synchronization, so the sanitizer must ignore its races.
__attribute__((no_sanitize("thread"), noinline)) bool all_equal(const std::uint8_t* data, std::size_t n,
                                                                std::uint8_t value) {
  for (std::size_t i = 0; i < n; ++i) {
    if (*const_cast<const volatile std::uint8_t*>(data + i) != value) return false;
  }
  return true;
}

struct Outcome {
  int rounds = 0;
  int torn = 0;
};

// Writes messages of `size` bytes to `to`, each filled with one value. The reader waits for the last Word to
// change. Torn: the word was neither the old nor the new one, or the rest was not yet written.
template <typename Word, typename Writer>
Outcome spin_on_the_end(std::uint8_t* to, std::size_t size, int rounds, Writer write) {
  std::vector<std::uint8_t> source(size);
  std::atomic<int> seen{0};
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::memset(to, 0, size);
  auto* last = reinterpret_cast<Word*>(to + size - sizeof(Word));
  const auto value_of = [](int round) { return static_cast<std::uint8_t>(round % 255 + 1); };
  const auto word_of = [](std::uint8_t value) {
    Word word;
    std::memset(&word, value, sizeof word);
    return word;
  };

  std::thread reader([&] {
    Word old = 0;
    for (int round = 0;; ++round) {
      const std::uint8_t value = value_of(round);
      Word now;
      for (Spin spin; (now = __atomic_load_n(last, __ATOMIC_ACQUIRE)) == old; spin()) {
        if (stop) return;
      }
      if (now != word_of(value) || !all_equal(to, size, value)) ++torn;
      for (Spin spin; __atomic_load_n(last, __ATOMIC_ACQUIRE) != word_of(value); spin()) {
      }
      old = word_of(value);
      seen = round + 1;
    }
  });

  const auto end = std::chrono::steady_clock::now() + kTimeForOneSize;
  int round = 0;
  for (; round < rounds && std::chrono::steady_clock::now() < end; ++round) {
    std::memset(source.data(), value_of(round), size);
    write(to, source.data(), size, torn);
    for (Spin spin; seen != round + 1; spin()) {
    }
  }
  stop = true;
  reader.join();
  return {round, torn};
}

void write_by_place(std::uint8_t* to, const std::uint8_t* from, std::size_t n, std::atomic<int>&) {
  ASSERT_TRUE(place(to, from, n, true));
}

// Writes the last byte first, and the rest once the reader has noticed (or would have).
void write_backwards(std::uint8_t* to, const std::uint8_t* from, std::size_t n, std::atomic<int>& torn) {
  const int before = torn;
  __atomic_store_n(to + n - 1, from[n - 1], __ATOMIC_RELEASE);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (torn == before && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  for (std::size_t i = 0; i + 1 < n; ++i) __atomic_store_n(to + i, from[i], __ATOMIC_RELEASE);
}

class Place : public testing::Test {
 protected:
  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(16 * 1024);
  std::uint8_t* memory_ = reinterpret_cast<std::uint8_t*>(words_.data());
};

TEST_F(Place, TheDetectorsCatchAWrongWriter) {
  EXPECT_GT(spin_on_the_end<std::uint8_t>(memory_, 33, 2, write_backwards).torn, 0);
  EXPECT_GT(spin_on_the_end<std::uint64_t>(memory_, 64, 2, write_backwards).torn, 0);
}

TEST_F(Place, WhoSeesTheLastOctetSeesAllOthers) {
  std::size_t shift = 0;
  for (const std::size_t size : {1,  2,  3,  5,  6,  7,   8,   9,   11,   13,   15,   16,   17,
                                 23, 31, 33, 63, 65, 100, 255, 257, 1023, 4095, 4097, 65535}) {
    for (int turn = 0; turn < 2; ++turn, shift = (shift + 3) % 16) {
      const Outcome outcome = spin_on_the_end<std::uint8_t>(memory_ + shift, size, 3000, write_by_place);
      EXPECT_EQ(outcome.torn, 0) << size << " octets at offset " << shift << ", " << outcome.rounds
                                 << " rounds";
    }
  }
}

TEST_F(Place, AnAlignedLastWordAppearsAtOnce) {
  for (const std::size_t start : {0, 1, 3, 4}) {
    for (const std::size_t end : {16, 40, 1024}) {
      EXPECT_EQ(spin_on_the_end<std::uint64_t>(memory_ + start, end - start, 3000, write_by_place).torn, 0)
          << start << " " << end;
      EXPECT_EQ(spin_on_the_end<std::uint32_t>(memory_ + start, end + 4 - start, 3000, write_by_place).torn,
                0)
          << start << " " << end;
      EXPECT_EQ(spin_on_the_end<std::uint16_t>(memory_ + start, end + 2 - start, 3000, write_by_place).torn,
                0)
          << start << " " << end;
    }
  }
  EXPECT_EQ(spin_on_the_end<std::uint64_t>(memory_, 8, 3000, write_by_place).torn, 0);
}

TEST_F(Place, EverySizeAndAlignmentIsCopiedWholeAndNothingElse) {
  std::vector<std::uint8_t> from(64), expected(128), to(128);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i + 1);
  for (const bool final : {false, true}) {
    for (std::size_t size = 0; size <= 40; ++size) {
      for (std::size_t shift = 0; shift < 16; ++shift) {
        for (std::size_t source = 0; source < 8; ++source) {
          std::fill(to.begin(), to.end(), std::uint8_t{0xcc});
          expected = to;
          std::memcpy(expected.data() + 16 + shift, from.data() + source, size);
          ASSERT_TRUE(place(to.data() + 16 + shift, from.data() + source, size, final));
          ASSERT_EQ(to, expected) << size << " octets at " << shift << " from " << source;
        }
      }
    }
  }
}

void on_fault(int, siginfo_t*, void* context) {
  if (!recover_from_fault(context)) _exit(3);
}

// Two pages, one of which is missing.
class PlaceFault : public testing::Test {
 protected:
  void SetUp() override {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;  // without SA_NODEFER: the jump out of the handler must unblock the signal
    sigaction(SIGSEGV, &action, &before_segv_);
    sigaction(SIGBUS, &action, &before_bus_);
    size_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    pages_ = static_cast<std::uint8_t*>(
        mmap(nullptr, 2 * size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  void TearDown() override {
    munmap(pages_, 2 * size_);
    sigaction(SIGSEGV, &before_segv_, nullptr);
    sigaction(SIGBUS, &before_bus_, nullptr);
  }
  std::size_t size_ = 0;
  std::uint8_t* pages_ = nullptr;
  struct sigaction before_segv_ {
  }, before_bus_{};
};

// Tests the order without a second thread: if the rest cannot be written, the last bytes must not be either.
TEST_F(PlaceFault, TheEndStaysWhenTheRestFaults) {
  mprotect(pages_, size_, PROT_READ);
  std::vector<std::uint8_t> from(64, 7);
  for (std::size_t behind = 1; behind <= 8; ++behind) {
    EXPECT_FALSE(place(pages_ + size_ + behind - 64, from.data(), 64, true));
    EXPECT_TRUE(all_equal(pages_ + size_, behind, 0)) << behind;
  }
}

TEST_F(PlaceFault, AMissingEndIsAnAnswerToo) {
  munmap(pages_ + size_, size_);
  std::vector<std::uint8_t> from(64, 7);
  for (std::size_t n = 1; n <= 64; ++n) {
    EXPECT_FALSE(place(pages_ + size_ + 1 - n, from.data(), n, true)) << n;
    EXPECT_FALSE(place(from.data(), pages_ + size_ + 1 - n, n, true)) << n;
  }
  EXPECT_EQ(active_fault_guard, nullptr);
  EXPECT_TRUE(place(pages_ + size_ - 64, from.data(), 64, true));

  MemoryTable table(1);
  Staging staging(table);
  ProtectionDomain pd;
  auto* region = *table.register_region(
      {.pd = &pd, .host = pages_, .length = 2 * size_, .address = 0, .access = kLocalWrite | kZeroBased});
  const Sge list[] = {{.address = size_ - 8, .length = 16, .lkey = {region->key}}};
  EXPECT_EQ(scatter(table, pd, list, 0, std::span(from).first(8), true, staging, {}), Cause::kNone);
  EXPECT_EQ(scatter(table, pd, list, 0, std::span(from).first(9), true, staging, {}),
            Cause::kLocalMemoryFault);
}

TEST_F(PlaceFault, APayloadOnAMissingPageIsFoundBeforeItIsSent) {
  munmap(pages_ + size_, size_);
  Frame frame;
  frame.add_span(pages_, 1);
  frame.add_span(pages_ + 100, size_ - 100);
  EXPECT_TRUE(is_mapped(frame));
  frame.add_span(pages_ + size_ - 1, 2);
  EXPECT_FALSE(is_mapped(frame));
  frame.clear();
  frame.add_span(pages_ + size_, 0);
  EXPECT_TRUE(is_mapped(frame));
  frame.add_span(pages_ + 1, 2 * size_ - 1);
  EXPECT_FALSE(is_mapped(frame));
}

}  // namespace rrdma::objects::place_test
