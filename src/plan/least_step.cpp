#include "plan/least_step.h"

#include <algorithm>

#include "plan/unit_times.h"

namespace fsdp::plan {

namespace {

// Calls `use(stage, block)` for each block of the pipeline.
template <typename Use>
void for_blocks(const std::vector<int>& cuts, Use use) {
  size_t block = 0;
  for (size_t stage = 0; stage < cuts.size(); ++stage) {
    for (int i = 0; i < cuts[stage]; ++i) use(stage, block++);
  }
}

struct TrainedUnit {
  size_t rank = 0;
  double numel = 0;
};

// Units of layers.
std::vector<TrainedUnit> trained_units(const LeastPipeline& pipeline, const std::vector<Block>& blocks) {
  std::vector<TrainedUnit> units;
  int64_t last = -1;
  for_blocks(pipeline.cuts, [&](size_t stage, size_t i) {
    const Block& block = blocks[i];
    if (!block.is_layer || !block.parameters.front().is_trained) return;
    const size_t rank = stage % static_cast<size_t>(pipeline.ranks);
    const bool goes_on = last >= 0 && block.layer_unit == last && units.back().rank == rank;
    if (!goes_on) units.push_back({.rank = rank});
    for (const Parameter& parameter : block.parameters) units.back().numel += static_cast<double>(parameter.numel);
    last = block.layer_unit;
  });
  return units;
}

}  // namespace

double least_pass_seconds(const LeastPipeline& pipeline, const std::vector<BlockTimes>& times) {
  const auto ranks = static_cast<size_t>(pipeline.ranks);
  std::vector<double> of_stage(pipeline.cuts.size()), around(pipeline.cuts.size()), work(ranks);
  for_blocks(pipeline.cuts, [&](size_t stage, size_t block) {
    const double forward = times[block].forward.device, backward = times[block].backward.device;
    of_stage[stage] += forward + backward;
    around[stage] += pipeline.puts_off_weights ? forward : forward + backward;
  });
  for (size_t stage = 0; stage < of_stage.size(); ++stage)
    work[stage % ranks] += static_cast<double>(pipeline.micro_batches) * of_stage[stage];
  double least = 0, in_front = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    least = std::max(least, in_front + work[rank]);
    in_front += around[rank];
  }
  return least;
}

double least_reduction_seconds(const LeastPipeline& pipeline, const std::vector<Block>& blocks, int64_t element,
                               const UnitRings& rings, const ShardedEngine& engine, const Hardware& hardware) {
  if (rings.group.ranks * rings.replicas.ranks == 1) return 0;
  std::vector<double> seconds(static_cast<size_t>(pipeline.ranks));
  for (const auto& [rank, numel] : trained_units(pipeline, blocks))
    seconds[rank] += static_cast<double>(pipeline.micro_batches) *
                     reduction_seconds(unit_reduction(numel, element, rings), numel, engine, hardware);
  return std::ranges::max(seconds);
}

}  // namespace fsdp::plan
