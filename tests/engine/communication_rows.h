// The kinds of models whose communication docs/communication.md counts.
#pragma once

#include <fsdp/fsdp.h>

#include <functional>
#include <string>
#include <vector>

namespace fsdp::testing_models {

constexpr int kTableRanks = 4;

// Sees the models of a row.
struct RowObserver {
  std::function<void(ShardedModel&)> begins = [](ShardedModel&) {};  // it is sharded, and was not used
  std::function<void(ShardedModel&)> ends = [](ShardedModel&) {};    // its last step is over
};

struct TableRow {
  std::string name;
  // Trains a model for three steps, and returns what the third communicated: the first is recorded, the second planned.
  std::function<CommunicationReport(World& world, const Options& options, const RowObserver& observer)> third_step;
  bool planned = true;  // each of its backwards is what the one before was: all is foreseen
};

std::vector<TableRow> table_rows();

}  // namespace fsdp::testing_models
