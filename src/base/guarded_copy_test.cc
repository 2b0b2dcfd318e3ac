#include "base/guarded_copy.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstring>

namespace rrdma::guarded_copy_test {

void on_fault(int, siginfo_t*, void* context) {
  if (!recover_from_fault(context)) _exit(3);
}

class GuardedCopy : public testing::Test {
 protected:
  void SetUp() override {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;  // the handler exits by a jump; keep the signal unblocked
    sigaction(SIGSEGV, &action, &before_segv_);
    sigaction(SIGBUS, &action, &before_bus_);
    page_ =
        static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(page_ + 4096, 4096);
  }
  void TearDown() override {
    munmap(page_, 4096);
    sigaction(SIGSEGV, &before_segv_, nullptr);
    sigaction(SIGBUS, &before_bus_, nullptr);
  }
  char* page_ = nullptr;
  struct sigaction before_segv_ {
  }, before_bus_{};
};

TEST_F(GuardedCopy, AMissingPageIsAnAnswerNotACrash) {
  char buffer[64] = "hello";
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(guarded_copy(page_ + 4096 - 64, buffer, 64));
    EXPECT_FALSE(guarded_copy(page_ + 4096 - 32, buffer, 64));
    EXPECT_FALSE(guarded_copy(buffer, page_ + 4096, 8));
    EXPECT_FALSE(guarded_copy(nullptr, buffer, 8));
    EXPECT_FALSE(guarded_copy(buffer, nullptr, 8));
    EXPECT_TRUE(guarded_copy(nullptr, nullptr, 0));
  }
  EXPECT_EQ(active_fault_guard, nullptr);
}

TEST_F(GuardedCopy, GuardsNest) {
  struct Both {
    char* page;
    bool inner = true;
  } both{page_};
  EXPECT_FALSE(guarded_call(
      [](void* p) {
        auto* b = static_cast<Both*>(p);
        char c;
        b->inner = guarded_copy(&c, b->page + 4096, 1);
        *const_cast<volatile char*>(b->page + 4096) = 1;
      },
      &both));
  EXPECT_FALSE(both.inner);
}

}  // namespace rrdma::guarded_copy_test
