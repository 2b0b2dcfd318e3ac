#include "host/calls/code_place.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace rrdma::host::code_place_test {

[[gnu::noinline]] CallSite called() { return call_site(); }

TEST(CodePlace, OfAReturnAddress) {
  const CallSite site = called();
  const CodePlace place = place_of(site);
  char own[CodePlace::kModuleMax] = {};
  ASSERT_GT(::readlink("/proc/self/exe", own, sizeof own - 1), 0);
  EXPECT_EQ(std::string(place.module), own);
  EXPECT_NE(place.inner, 0u);
  // The same distance in the file as in memory.
  const CallSite other{reinterpret_cast<const char*>(site.inner) + 16, nullptr};
  EXPECT_EQ(place_of(other).inner, place.inner + 16);
  EXPECT_EQ(place_of(other).outer, 0u);
}

TEST(CodePlace, OnlyOfCode) {
  static int data = 0;
  EXPECT_EQ(place_of({}).module[0], '\0');
  EXPECT_EQ(place_of({&data, nullptr}).module[0], '\0');
  EXPECT_EQ(place_of({called().inner, &data}).outer, 0u);
}

// This file counts as RRDMA: on a thread of its own no program called it.
TEST(CodePlace, NoneWithoutAProgram) {
  std::thread([] { EXPECT_EQ(place_of_call().module[0], '\0'); }).join();
}

}  // namespace rrdma::host::code_place_test
