#include "pipeline/stage_layout.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "pipeline/tags.h"
#include "stages/cuts.h"
#include "stages/schedules.h"

namespace fsdp::pipeline {

namespace {

bool is_path(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.back() != '.' && name.find("..") == std::string::npos;
}

void check_blocks(const std::vector<PipelineBlock>& blocks) {
  FSDP_CHECK(!blocks.empty(), "Pipeline: found no blocks, expected at least 1.");
  std::unordered_set<std::string> names;
  for (const PipelineBlock& block : blocks) {
    FSDP_CHECK(is_path(block.name), "Pipeline: found a block with the name {:?}, expected one such as \"blocks.0\".",
               block.name);
    FSDP_CHECK(names.insert(block.name).second,
               "Pipeline: found 2 blocks with the name {}. Give each block a name of its own.", block.name);
    FSDP_CHECK(block.make && block.forward,
               "Pipeline: block {} has no {} function. Set it, or make the block by pipeline_block.", block.name,
               block.make ? "forward" : "make");
  }
  for (const PipelineBlock& block : blocks) {
    for (size_t end = block.name.find('.'); end != std::string::npos; end = block.name.find('.', end + 1)) {
      const std::string parent = block.name.substr(0, end);
      FSDP_CHECK(!names.contains(parent), "Pipeline: block {} would lie within block {}. Rename one of them.",
                 block.name, parent);
    }
  }
}

std::vector<double> costs_of(const std::vector<PipelineBlock>& blocks) {
  std::vector<double> costs;
  for (const PipelineBlock& block : blocks) costs.push_back(block.cost);
  const auto unknown = std::ranges::count(costs, 0.0);
  if (unknown == std::ssize(costs)) return std::vector<double>(costs.size(), 1.0);
  const auto* block = std::ranges::find(blocks, 0.0, &PipelineBlock::cost).base();
  FSDP_CHECK(unknown == 0,
             "Pipeline: block {} has cost 0, and other blocks have costs. Give all blocks a cost, or none.",
             block->name);
  return costs;
}

std::vector<int> given_cuts(const std::vector<int>& cuts, int blocks, int stages) {
  const bool all_positive = std::ranges::all_of(cuts, [](int count) { return count > 0; });
  FSDP_CHECK(
      std::ssize(cuts) == stages && all_positive && std::accumulate(cuts.begin(), cuts.end(), int64_t{0}) == blocks,
      "Pipeline: found cuts [{}], expected {} stages of at least 1 block that have {} blocks together. For "
      "example: [{}].",
      fmt::join(cuts, ", "), stages, blocks,
      fmt::join(stages::even_cuts(std::vector<double>(blocks, 1.0), stages), ", "));
  return cuts;
}

}  // namespace

int StageLayout::first_block(int stage) const { return std::accumulate(cuts.begin(), cuts.begin() + stage, 0); }

int StageLayout::stage_of(int block) const {
  int stage = 0;
  for (int end = cuts[0]; end <= block; end += cuts[stage]) ++stage;
  return stage;
}

std::string_view name_of(PipelineSchedule schedule) {
  const auto schedules = stages::named_schedules();
  const auto index = static_cast<size_t>(schedule);
  FSDP_CHECK(index < schedules.size(), "Pipeline: found schedule number {}, expected one of PipelineSchedule.", index);
  return schedules[index].name;
}

StageLayout lay_out(const std::vector<PipelineBlock>& blocks, const PipelineOptions& options, int ranks) {
  check_blocks(blocks);
  const auto count = static_cast<int>(blocks.size());
  FSDP_CHECK(options.stages_per_rank >= 1, "Pipeline: found stages_per_rank {}, expected at least 1.",
             options.stages_per_rank);
  FSDP_CHECK(count / options.stages_per_rank >= ranks,
             "Pipeline: found {} blocks for {} ranks with {} stages each, expected at least 1 block per stage. Use at "
             "most {} ranks, or divide the model into more blocks.",
             count, ranks, options.stages_per_rank, count / options.stages_per_rank);
  const int stages = ranks * options.stages_per_rank;
  FSDP_CHECK(stages <= kMostStages, "Pipeline: found {} stages, expected at most {}.", stages, kMostStages);
  // Throws for stages that the schedule cannot have.
  stages::named_schedule(name_of(options.schedule)).generate(ranks, options.stages_per_rank, /*micro_batches=*/1);
  return {ranks,
          options.cuts.empty() ? stages::even_cuts(costs_of(blocks), stages) : given_cuts(options.cuts, count, stages)};
}

}  // namespace fsdp::pipeline
