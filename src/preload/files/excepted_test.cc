#include "preload/files/excepted.h"

#include <gtest/gtest.h>

namespace rrdma::files::excepted_test {

TEST(Excepted, NamesAndPatterns) {
  EXPECT_TRUE(is_excepted("sshd", "sshd"));
  EXPECT_TRUE(is_excepted("postgres*:sshd", "sshd"));
  EXPECT_TRUE(is_excepted("postgres*:sshd", "postgres-14"));
  EXPECT_TRUE(is_excepted(":sshd:", "sshd"));
  EXPECT_FALSE(is_excepted("", "sshd"));
  EXPECT_FALSE(is_excepted(":", ""));
  EXPECT_FALSE(is_excepted("ssh", "sshd"));
}

}  // namespace rrdma::files::excepted_test
