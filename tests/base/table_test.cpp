#include "base/table.h"

#include <gtest/gtest.h>

namespace fsdp {
namespace {

TEST(Table, AlignsCellsUnderTheirHeadings) {
  Table table({{"unit"}, {"bytes", Table::Align::Right}, {"buffer"}});
  table.add({"root", "12", "0"});
  table.add({"blocks.0", "1234567", ""});
  EXPECT_EQ(table.text(),
            "unit        bytes  buffer\n"
            "root           12  0\n"
            "blocks.0  1234567\n");
}

TEST(Table, LeavesOutColumnsInWhichNothingIs) {
  Table table({{"unit"}, {"waits", Table::Align::Right}, {"buffer"}});
  table.add({"root", "", "0"});
  EXPECT_EQ(table.text(),
            "unit  buffer\n"
            "root  0\n");
}

}  // namespace
}  // namespace fsdp
