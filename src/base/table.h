// Plain text in aligned columns.
#pragma once

#include <string>
#include <vector>

namespace fsdp {

class Table {
 public:
  enum class Align { Left, Right };
  struct Column {
    std::string heading;
    Align align = Align::Left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // A cell a column.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Lines without blanks at their ends. Columns in which every cell is empty are left out.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace fsdp
