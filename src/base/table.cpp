#include "base/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace fsdp {

void Table::add(const std::vector<Row>& rows, const Shift& shift, size_t column) {
  for (const auto& [begin, shown, repeated] : find_repetitions(rows.size(), shift)) {
    for (size_t i = begin; i < begin + shown; ++i) add(rows[i]);
    if (repeated == 0) continue;
    const Row& last = rows[begin + shown + repeated - 1];
    Row rest(last.begin(), last.begin() + static_cast<ptrdiff_t>(column));
    rest.push_back(fmt::format("{} more, to {}", repeated, last[column]));
    add(std::move(rest));
  }
}

std::string Table::text() const {
  std::vector<size_t> widths(columns_.size(), 0);  // 0: left out
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (widths[i] > 0) widths[i] = std::max(widths[i], columns_[i].heading.size());
  }
  std::string text;
  const auto add_line = [&](const auto& cell) {
    std::string line;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (widths[i] == 0) continue;
      if (!line.empty()) line += "  ";
      line += columns_[i].align == Align::Left ? fmt::format("{:<{}}", cell(i), widths[i])
                                               : fmt::format("{:>{}}", cell(i), widths[i]);
    }
    text += line.erase(line.find_last_not_of(' ') + 1) + "\n";
  };
  add_line([&](size_t i) { return columns_[i].heading; });
  for (const auto& row : rows_) add_line([&](size_t i) { return row[i]; });
  return text;
}

}  // namespace fsdp
