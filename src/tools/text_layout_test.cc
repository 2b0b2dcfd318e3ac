#include "tools/text_layout.h"

#include <gtest/gtest.h>

namespace rrdma::tools::text_layout_test {

Table sample() {
  Table table({{"PID", Align::kRight},
               {"PROGRAM", Align::kLeft, Column::kAlways, 4},
               {"TX", Align::kRight, 2},
               {"RX", Align::kRight, 1}});
  table.add({"1", "ib_write_bw", "100", "2"});
  table.add({"23", "rping", "5", "60"});
  return table;
}

TEST(Table, HasAllColumnsWhereThereIsRoom) {
  EXPECT_EQ(sample().text("", ""),
            "PID  PROGRAM       TX  RX\n"
            "  1  ib_write_bw  100   2\n"
            " 23  rping          5  60\n");
}

TEST(Wrapped, PunctuationStaysWithItsText) {
  EXPECT_EQ(wrapped("一二三四（五）六。", 10, "", ""), "一二三四\n（五）六。\n");
  EXPECT_EQ(wrapped("WRITE（wr_id 77）", 8, "", ""), "WRITE\n（wr_id\n77）\n");
}

TEST(Table, FirstCutsWhatMayBeCut) {
  EXPECT_EQ(sample().text("", "", 20),
            "PID  PROGR…   TX  RX\n"
            "  1  ib_wr…  100   2\n"
            " 23  rping     5  60\n");
}

TEST(Table, ThenLeavesOutWhatMattersLeast) {
  EXPECT_EQ(sample().text("", "", 15),
            "PID  PROG…   TX\n"
            "  1  ib_w…  100\n"
            " 23  rping    5\n");
  EXPECT_EQ(sample().text("", "", 10),
            "PID  PROG…\n"
            "  1  ib_w…\n"
            " 23  rping\n");
  // Not narrower than the columns that always stay.
  EXPECT_EQ(sample().text("", "", 1),
            "PID  PRO…\n"
            "  1  ib_…\n"
            " 23  rpi…\n");
}

TEST(ShortNumber, TakesFewColumns) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(999), "999");
  EXPECT_EQ(short_number(1234567), "1.23M");
}

}  // namespace rrdma::tools::text_layout_test
