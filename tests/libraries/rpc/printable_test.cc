// Texts of a hostile server on a terminal.
#include "lib/rpc/tool/printable.h"

#include <gtest/gtest.h>

namespace rpc_test::printable_test {

using rrdma::rpc::tool::Lines;
using rrdma::rpc::tool::printable;

TEST(Printable, PlainTextStaysAsItIs) {
  EXPECT_EQ(printable("key_value.Store/Get unary\n", Lines::kKept), "key_value.Store/Get unary\n");
  EXPECT_EQ(printable("Größe, 大小, 📦", Lines::kEscaped), "Größe, 大小, 📦");
}

TEST(Printable, NothingThatATerminalObeysIsLeft) {
  EXPECT_EQ(printable("\x1b]0;title\x07", Lines::kKept), "\\x1b]0;title\\x07");
  EXPECT_EQ(printable("a\nrrdma: all is well\r", Lines::kEscaped), "a\\x0arrdma: all is well\\x0d");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m",
                      Lines::kKept),
            "\\xc2\\x9b31m");  // CSI as one character
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "txt",
                      Lines::kKept),
            "\\xe2\\x80\\xaetxt");  // right to left
  EXPECT_EQ(printable("\x9b"
                      "31m\xc0\x9b\xf0\x80",
                      Lines::kKept),
            "\\x9b31m\\xc0\\x9b\\xf0\\x80");  // no UTF-8
  EXPECT_EQ(printable(std::string_view("\0x\x7f", 3), Lines::kKept), "\\x00x\\x7f");
}

}  // namespace rpc_test::printable_test
