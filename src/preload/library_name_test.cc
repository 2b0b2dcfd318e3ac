#include "preload/library_name.h"

#include <gtest/gtest.h>

namespace rrdma::preload::library_name_test {

TEST(LibraryName, KnowsCopiesUnderAnyName) {
  for (const char* name : {"libibverbs.so", "libibverbs.so.1", "libibverbs.so.1.14.44.0",
                           "libibverbs-1de1263b.so", "libibverbs-1de1263b.so.1", "libibverbs_private.so",
                           "/usr/lib/libibverbs.so.1", "wheel.libs/libibverbs-1de1263b.so.1.14.51.0"}) {
    EXPECT_TRUE(is_library(name, "libibverbs")) << name;
  }
}

TEST(LibraryName, LeavesOthersAlone) {
  for (const char* name : {"libibverbs", "libibverbsx.so", "libibverbs.socket", "libibverbs.so.debug",
                           "xlibibverbs.so", "libibverbs/libmlx5-rdmav34.so", "librdmacm.so.1", "", "/"}) {
    EXPECT_FALSE(is_library(name, "libibverbs")) << name;
  }
  EXPECT_FALSE(is_library(nullptr, "libibverbs"));
}

}  // namespace rrdma::preload::library_name_test
