#include "base/table.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

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

TEST(Table, FillsShortRows) {
  Table table({{"unit"}, {"buffer"}});
  table.add({"root", "0"});
  table.add({"2 more"});
  EXPECT_EQ(table.text(),
            "unit    buffer\n"
            "root    0\n"
            "2 more\n");
}

TEST(Table, SumsUpRowsThatGoOnAlike) {
  std::vector<Table::Row> rows{{"forward", "root", "2"}};
  for (int i = 0; i < 10; ++i) rows.push_back({"forward", "blocks." + std::to_string(i), "1"});
  Table table({{"phase"}, {"unit"}, {"gathers"}});
  const auto alike = [&](size_t a, size_t b) { return rows[a][2] == rows[b][2] ? std::optional(0) : std::nullopt; };
  table.add(rows, alike, 1);
  EXPECT_EQ(table.text(),
            "phase    unit                 gathers\n"
            "forward  root                 2\n"
            "forward  blocks.0             1\n"
            "forward  9 more, to blocks.9\n");
}

}  // namespace
}  // namespace fsdp
