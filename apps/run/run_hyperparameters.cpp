#include "run/run_hyperparameters.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "files/printable.h"
#include "options/option_value.h"

namespace trainer {

namespace {

constexpr std::array<std::string_view, 5> kTableSections = {"data", "model", "mesh", "sharding", "training"};

HyperparameterValue value_for_table(const Scalar& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth;
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return fsdp::files::printable_lines(std::get<std::string>(value));
}

}  // namespace

Hyperparameters hyperparameters_of(const RunOptions& options) {
  Hyperparameters table;
  for (const Row& row : option_rows()) {
    const bool tells =
        row.is_for(Command::Train) && std::ranges::find(kTableSections, row.section) != kTableSections.end();
    const std::optional<Scalar> value = tells ? value_of(row, options) : std::nullopt;
    if (value) table.emplace_back(row.key(), value_for_table(*value));
  }
  return table;
}

}  // namespace trainer
