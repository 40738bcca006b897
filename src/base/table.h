// Plain text in aligned columns.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/repetition.h"

namespace fsdp {

class Table {
 public:
  using Row = std::vector<std::string>;  // a cell per column; those left out at the end are empty
  enum class Align { Left, Right };
  struct Column {
    std::string heading;
    Align align = Align::Left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(Row row) {
    row.resize(columns_.size());
    rows_.push_back(std::move(row));
  }
  // For many similar rows, as found by find_repetitions, adds only the first ones: "46 more, to blocks.46" stands in
  // `column` for the others.
  void add(const std::vector<Row>& rows, const Shift& shift, size_t column);
  // Lines without blanks at their ends. Columns in which every cell is empty are left out.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace fsdp
