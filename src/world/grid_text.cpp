#include "world/grid_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/table.h"

namespace fsdp::world {

namespace {

constexpr int64_t kMostAsAsked = 8;  // lines and columns of a grid that no world has

struct Cells {
  int64_t count = 0;  // product of the axes' sizes
  std::function<std::string(int64_t position)> text;
  std::function<std::string(int64_t first)> end_of_line;  // by the line's first position
  int64_t most = std::numeric_limits<int64_t>::max();     // lines and columns that are drawn
};

// "data", "stage", "tensor 0", "1", ...
std::vector<Table::Column> columns_of(const Axes& axes, int64_t columns) {
  std::vector<Table::Column> all;
  for (size_t axis = 0; axis + 1 < axes.size(); ++axis) all.push_back({axes[axis].first, Table::Align::Right});
  for (int64_t i = 0; i < columns; ++i) {
    all.push_back({i == 0 ? axes.back().first + " 0" : std::to_string(i), Table::Align::Right});
  }
  return all;
}

// The coordinates of a line on all axes but the last.
Table::Row line_start(const Axes& axes, int64_t line) {
  Table::Row row(axes.size() - 1);
  for (size_t axis = axes.size() - 1; axis-- > 0; line /= axes[axis].second) {
    row[axis] = std::to_string(line % axes[axis].second);
  }
  return row;
}

std::string draw_cells(const Axes& axes, const Cells& cells) {
  const int64_t width = axes.back().second, lines = cells.count / width;
  const int64_t columns = std::min(width, cells.most);
  std::vector<Table::Column> headings = columns_of(axes, columns);
  headings.push_back({cells.end_of_line ? "host" : "", Table::Align::Left});
  Table table(std::move(headings));
  for (int64_t line = 0; line < std::min(lines, cells.most); ++line) {
    Table::Row row = line_start(axes, line);
    for (int64_t i = 0; i < columns; ++i) row.push_back(cells.text(line * width + i));
    if (columns < width) {
      row.push_back("...");
    } else if (cells.end_of_line) {
      row.push_back(cells.end_of_line(line * width));
    }
    table.add(std::move(row));
  }
  return table.text() + (lines > cells.most ? "...\n" : "");
}

// "node1", or "node1 (3), node2 (1)".
std::string hosts_in_words(const std::vector<std::string>& hosts) {
  std::vector<std::pair<std::string, int>> counts;
  for (const std::string& host : hosts) {
    if (counts.empty() || counts.back().first != host) counts.emplace_back(host, 0);
    ++counts.back().second;
  }
  if (counts.size() == 1) return counts[0].first;
  std::vector<std::string> texts;
  for (const auto& [host, count] : counts) texts.push_back(fmt::format("{} ({})", host, count));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string counted(size_t number, const std::string& noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

// By rank.
std::vector<std::string> distinct_names(const std::vector<HostOfRank>& hosts) {
  std::map<std::string, int> uses;
  std::map<int64_t, std::string> chosen;
  std::vector<std::string> names;
  for (const HostOfRank& host : hosts) {
    const auto [known, is_new] = chosen.emplace(host.number, host.name);
    if (is_new && ++uses[host.name] > 1) known->second += fmt::format("#{}", uses[host.name]);
    names.push_back(known->second);
  }
  return names;
}

}  // namespace

std::string draw_as_asked(const Axes& axes, int ranks) {
  Cells cells;
  cells.count = 1;
  for (const auto& axis : axes) cells.count *= axis.second;
  cells.text = [ranks](int64_t position) { return position < ranks ? std::to_string(position) : "-"; };
  cells.most = kMostAsAsked;
  return draw_cells(axes, cells);
}

std::string draw_grid(const Grid& grid, const std::vector<HostOfRank>& hosts, const std::vector<int>& names) {
  const std::vector<std::string> host_names = distinct_names(hosts);
  const std::set<std::string> different(host_names.begin(), host_names.end());
  Cells cells;
  cells.count = static_cast<int64_t>(hosts.size());
  cells.text = [&](int64_t position) { return std::to_string(names[grid.ranks()[position]]); };
  cells.end_of_line = [&](int64_t first) {
    std::vector<std::string> of_line;
    for (int i = 0; i < grid.axes().back().second; ++i) of_line.push_back(host_names[grid.ranks()[first + i]]);
    return hosts_in_words(of_line);
  };
  return fmt::format("{}: {} on {}\n{}", text_of(grid.axes()), counted(hosts.size(), "rank"),
                     counted(different.size(), "host"), draw_cells(grid.axes(), cells));
}

}  // namespace fsdp::world
