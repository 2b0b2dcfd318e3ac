#include "host/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rrdma::host::fork_test {

// The result of `check` in a child.
template <typename Check>
bool in_a_child(Check check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 1 : 0);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status) == 1;
}

TEST(ForkMark, TellsTheChildAndNotTheParent) {
  const ForkMark mark;
  EXPECT_TRUE(in_a_child([&] { return mark.forked(); }));
  EXPECT_FALSE(mark.forked());
}

TEST(ForkMark, OfAChildIsGoodThereAndNotInItsChildren) {
  EXPECT_TRUE(in_a_child([] {
    const ForkMark mark;
    return !mark.forked() && in_a_child([&] { return mark.forked(); });
  }));
}

}  // namespace rrdma::host::fork_test
