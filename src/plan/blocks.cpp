#include "plan/blocks.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::plan {

namespace {

void add_use(std::vector<size_t>& uses, size_t unit) {
  if (uses.empty() || uses.back() != unit) uses.push_back(unit);
}

void append(Unit& unit, const Unit& parameters) { unit.insert(unit.end(), parameters.begin(), parameters.end()); }

bool are_one_unit(const Block& layer, const Block& next) {
  return layer.is_layer && next.layer_unit >= 0 && layer.layer_unit == next.layer_unit;
}

// The number of each block's unit: 0 for what lies in no layer, then the layers'. `own`: the blocks of a rank.
std::vector<std::optional<size_t>> unit_numbers(const std::vector<Block>& blocks, const std::vector<size_t>& own) {
  std::vector<std::optional<size_t>> numbers(blocks.size());
  size_t units = 0, layers = 0;
  for (const size_t i : own) {
    const bool goes_on = i > 0 && numbers[i - 1] && are_one_unit(blocks[i - 1], blocks[i]);
    if (blocks[i].is_layer && !goes_on) ++units;
    if (blocks[i].is_layer) ++layers;
    numbers[i] = blocks[i].is_layer ? units : 0;
  }
  if (units == 1 && layers > 1) {
    for (const size_t i : own) numbers[i] = 0;
  }
  return numbers;
}

// Without a first unit that has no parameters.
std::vector<Unit> take_units(const std::vector<Block>& blocks, std::vector<std::optional<size_t>>& numbers) {
  std::vector<Unit> units(1);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!numbers[i]) continue;
    units.resize(std::max(units.size(), *numbers[i] + 1));
    append(units[*numbers[i]], blocks[i].parameters);
  }
  if (!units.front().empty()) return units;
  units.erase(units.begin());
  for (std::optional<size_t>& number : numbers) {
    if (number) number = *number == 0 ? std::nullopt : std::optional(*number - 1);
  }
  return units;
}

}  // namespace

RankUnits units_of_rank(const Mesh& mesh, const std::vector<Block>& blocks, int64_t pipeline_rank) {
  const int count = mesh.end_block(mesh.stages() - 1);
  FSDP_CHECK(std::ssize(blocks) == count, "plan: found {} blocks, expected {}, those of the stages.", blocks.size(),
             count);
  FSDP_CHECK(pipeline_rank >= 0 && pipeline_rank < mesh.sizes.pipeline,
             "plan: found pipeline rank {}, expected 0 to {}.", pipeline_rank, mesh.sizes.pipeline - 1);
  std::vector<size_t> own;
  const std::vector<int> stages = mesh.stages_of(pipeline_rank);
  for (const int stage : stages) {
    for (int i = mesh.first_block(stage), end = mesh.end_block(stage); i < end; ++i)
      own.push_back(static_cast<size_t>(i));
  }
  RankUnits rank{.of_stage = std::vector<StageUses>(mesh.cuts.size()), .of_block = unit_numbers(blocks, own)};
  rank.units = take_units(blocks, rank.of_block);
  for (const int stage : stages) {
    StageUses& uses = rank.of_stage[static_cast<size_t>(stage)];
    for (int i = mesh.first_block(stage), end = mesh.end_block(stage); i < end; ++i) {
      const std::optional<size_t> unit = rank.of_block[static_cast<size_t>(i)];
      if (!unit) continue;
      add_use(uses.forward, *unit);
      if (!blocks[static_cast<size_t>(i)].is_lookup) add_use(uses.backward, *unit);
    }
    std::ranges::reverse(uses.backward);
  }
  return rank;
}

Mesh mesh_of_one_rank(const std::vector<Block>& blocks) {
  const auto count = std::ssize(blocks);
  FSDP_CHECK(count >= 1 && count <= stages::kMostNumber, "plan: found {} blocks, expected 1 to {}.", count,
             stages::kMostNumber);
  return mesh_of({}, {static_cast<int>(count)}, "OneAtATime", 1);
}

}  // namespace fsdp::plan
