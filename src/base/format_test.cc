#include "base/format.h"

#include <gtest/gtest.h>

#include <array>

namespace rrdma::format_test {

TEST(Format, WritesValuesOfEveryKind) {
  const std::string word = "rrdma";
  EXPECT_EQ(formatted("{} {:#x} {:>4} {:.2f} {}", word, 255u, 7, 1.5, std::string_view("end")),
            "rrdma 0xff    7 1.50 end");
  EXPECT_EQ(formatted("{:<{}}|{}", "ab", 4, true), "ab  |true");
}

TEST(Format, JoinsWords) {
  EXPECT_EQ(joined(std::array<std::string_view, 3>{"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(joined(std::array<std::string_view, 0>{}, ", "), "");
}

}  // namespace rrdma::format_test
