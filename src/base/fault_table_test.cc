#include "base/fault_table.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace rrdma::fault_table_test {

void on_fault(int, siginfo_t*, void* context) {
  if (!leave_faulting_access(context)) _exit(3);
}

// A mapped page, followed by one that cannot be accessed. It stays reserved, so nothing else is ever mapped
// there.
class FaultTable : public testing::Test {
 protected:
  void SetUp() override {
    if (kSmallCopyMax == 0) GTEST_SKIP() << "no table on this machine";
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_);
    size_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    page_ = static_cast<std::uint8_t*>(
        mmap(nullptr, 2 * size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(page_ + size_, size_, PROT_NONE);
    std::iota(data_.begin(), data_.end(), std::uint8_t{1});
  }
  void TearDown() override {
    if (page_ == nullptr) return;
    munmap(page_, 2 * size_);
    sigaction(SIGSEGV, &before_, nullptr);
  }
  [[nodiscard]] std::uint8_t* end() const { return page_ + size_; }

  std::array<std::uint8_t, kSmallCopyMax> data_{};
  std::size_t size_ = 0;
  std::uint8_t* page_ = nullptr;
  struct sigaction before_ {};
};

TEST_F(FaultTable, EveryLengthIsCopiedAndNothingBesides) {
  for (const auto copy : {small_copy, small_copy_end_last}) {
    for (std::size_t n = 0; n <= kSmallCopyMax; ++n) {
      for (std::size_t shift = 1; shift <= 8; ++shift) {
        std::fill(page_, page_ + 128, std::uint8_t{0});
        ASSERT_TRUE(copy(page_ + shift, data_.data(), n));
        ASSERT_TRUE(std::equal(data_.begin(), data_.begin() + static_cast<std::ptrdiff_t>(n), page_ + shift));
        ASSERT_EQ(page_[shift - 1], 0);
        ASSERT_EQ(page_[shift + n], 0);
      }
    }
  }
}

TEST_F(FaultTable, MemoryThatIsMissingIsAnAnswer) {
  for (std::size_t n = 1; n <= kSmallCopyMax; ++n) {
    for (std::size_t there = 0; there <= n; ++there) {
      const bool all = there == n;
      EXPECT_EQ(small_copy(end() - there, data_.data(), n), all) << n << " octets, " << there << " there";
      EXPECT_EQ(small_copy(data_.data(), end() - there, n), all) << n << " octets, " << there << " there";
      EXPECT_EQ(small_copy_end_last(end() - there, data_.data(), n), all) << n << " octets, " << there;
      EXPECT_EQ(small_copy_end_last(data_.data(), end() - there, n), all) << n << " octets, " << there;
    }
  }
}

TEST_F(FaultTable, APeekTellsWhetherAnOctetIsThere) {
  EXPECT_TRUE(guarded_peek(end() - 1));
  EXPECT_FALSE(guarded_peek(end()));
  EXPECT_FALSE(guarded_peek(nullptr));
}

using FaultTableDeathTest = FaultTable;

TEST_F(FaultTableDeathTest, AFaultOfSomebodyElseIsNotLeft) {
  EXPECT_EXIT(*const_cast<volatile std::uint8_t*>(end()) = 1, testing::ExitedWithCode(3), "");
}

}  // namespace rrdma::fault_table_test
