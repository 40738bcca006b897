// The table, from its parts in option_rows_*.cpp.
#include "options/option_groups.h"

namespace trainer {

namespace {

std::vector<Row> flattened() {
  std::vector<Row> rows;
  for (const auto& groups : {data_and_model_groups(), rank_groups(), training_groups(), output_groups()}) {
    for (const Group& group : groups) {
      for (Row row : group.rows) {
        row.title = group.title;
        const bool only_typed = (row.commands & (kTrain | kSample)) == 0;
        row.section = only_typed ? "" : group.section;
        rows.push_back(row);
      }
    }
  }
  return rows;
}

}  // namespace

const std::vector<Row>& option_rows() {
  static const std::vector<Row> rows = flattened();
  return rows;
}

const std::vector<Rivals>& rival_options() {
  static const std::vector<Rivals> rivals = {
      {"--steps", "--epochs", ""},
      {"--micro-batches", "--tokens-per-step", "one follows from the other"},
      {"--text", "--data", "both say what to learn from"},
      {"--ranks", "--elastic", "the greatest number of the second is what the first says"},
      {"--resume", "--checkpoint", "both say where to begin"},
  };
  return rivals;
}

}  // namespace trainer
