// Counts what every strategy communicates for every kind of model, and keeps the table of docs/communication.md.
//
// FSDP_UPDATE_DOCS=1 in the environment writes the table instead of comparing it; with FSDP_TEST_CASES=all, each
// column.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/communication_rows.h"
#include "support/drawn.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using testing_models::table_rows;
using testing_models::TableRow;

constexpr const char* kFile = FSDP_DOCS "/communication.md";
constexpr const char* kBegin = "<!-- counted by engine.CommunicationTable -->\n";
constexpr const char* kEnd = "<!-- end -->";

struct Column {
  std::string name;
  Options options;
};

std::vector<Column> columns() {
  return {{"FullShard", {}},
          {"ShardGradOp", {.strategy = Strategy::ShardGradOp}},
          {"ShardOptimizer", {.strategy = Strategy::ShardOptimizer}},
          {"NoShard", {.strategy = Strategy::NoShard}},
          {"HybridShard", {.strategy = Strategy::HybridShard, .shard_group_size = 2}},
          {"HybridShardGradOp", {.strategy = Strategy::HybridShardGradOp, .shard_group_size = 2}}};
}

std::string count(const TableRow& row, const Options& options, World& world) {
  const CommunicationReport report = row.third_step(world, options, {});
  if (row.planned) {
    EXPECT_EQ(report.late_gradients, 0) << row.name;
    EXPECT_EQ(report.foreseen_gathers, report.gathers) << row.name;
  }
  return fmt::format("{} + {}{}", report.gathers, report.reductions, report.all_reductions > 0 ? "\\*" : "");
}

using Cells = std::vector<std::string>;

// The page: what is before the table, the cells of its lines, what is behind.
struct Page {
  std::string before, behind;
  std::vector<Cells> lines;
};

Cells cells_of(const std::string& line) {
  Cells cells;
  for (size_t begin = 2, end; (end = line.find(" |", begin)) != std::string::npos; begin = end + 3) {
    cells.push_back(line.substr(begin, end - begin));
  }
  return cells;
}

Page read_page() {
  std::ifstream in(kFile);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t begin = text.find(kBegin), end = text.find(kEnd);
  EXPECT_TRUE(begin != std::string::npos && end != std::string::npos) << kFile << " has no place for the table";
  const size_t start = begin + std::string(kBegin).size();
  Page page{text.substr(0, start), text.substr(end), {}};
  std::istringstream table(text.substr(start, end - start));
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with("|---")) page.lines.push_back(cells_of(line));
  }
  return page;
}

void write_page(const Page& page) {
  std::string table;
  for (const Cells& line : page.lines) {
    table += fmt::format("| {} |\n", fmt::join(line, " | "));
    if (&line == &page.lines.front()) table += fmt::format("|{}\n", fmt::join(Cells(line.size(), "---|"), ""));
  }
  std::ofstream(kFile) << page.before << table << page.behind;
}

// The table's lines with another column; the other columns stay as far as the page has them.
std::vector<Cells> with_column(const std::vector<Cells>& lines, size_t column, const Cells& counted) {
  std::vector<Cells> changed{{"model"}};
  for (const Column& one : columns()) changed[0].push_back(one.name);
  const auto rows = table_rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto old =
        std::find_if(lines.begin(), lines.end(), [&](const Cells& line) { return line[0] == rows[i].name; });
    Cells line = old == lines.end() ? Cells{rows[i].name} : *old;
    line.resize(changed[0].size());
    line[column] = counted[i];
    changed.push_back(std::move(line));
  }
  return changed;
}

class CommunicationTable : public ::testing::TestWithParam<size_t> {};

TEST_P(CommunicationTable, IsWhatIsCounted) {
  fsdp::testing::run_ranks(testing_models::kTableRanks, [](World& world) {
    Cells counted;
    for (const TableRow& row : table_rows()) counted.push_back(count(row, columns()[GetParam()].options, world));
    if (world.rank() != 0) return;
    Page page = read_page();
    const std::vector<Cells> lines = with_column(page.lines, GetParam() + 1, counted);
    if (std::getenv("FSDP_UPDATE_DOCS")) {
      page.lines = lines;
      write_page(page);
    } else {
      EXPECT_EQ(page.lines, lines);
    }
  });
}

// Those that differ most are always counted.
bool is_always_counted(const Column& column) { return column.name == "FullShard" || column.name == "HybridShard"; }

std::vector<size_t> columns_that(bool are_always_counted) {
  std::vector<size_t> numbers;
  for (size_t i = 0; i < columns().size(); ++i) {
    if (is_always_counted(columns()[i]) == are_always_counted) numbers.push_back(i);
  }
  return numbers;
}

INSTANTIATE_TEST_SUITE_P(Strategies, CommunicationTable,
                         fsdp::testing::drawn<size_t>(columns_that(true), columns_that(false)),
                         [](const auto& info) { return columns()[info.param].name; });

}  // namespace
}  // namespace fsdp
