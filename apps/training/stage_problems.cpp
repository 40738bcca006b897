#include "training/stage_problems.h"

#include <fmt/format.h>
#include <fsdp/pipeline.h>

#include <algorithm>
#include <functional>

#include "console/units.h"
#include "models/block_costs.h"
#include "run/collect_problems.h"

namespace trainer {

namespace {

// Without the library's mark before its messages.
std::vector<int> read_cuts(const std::string& text, int blocks, int stages) try {
  return fsdp::pipeline_cuts(text, blocks, stages);
} catch (const fsdp::Error& error) {
  const std::string problem = error.what(), mark = "[fsdp] ";
  throw fsdp::Error(problem.starts_with(mark) ? problem.substr(mark.size()) : problem);
}

std::vector<int> cuts_of(const RunOptions& options, int blocks) {
  const auto stages = static_cast<int>(options.stage_count());
  if (options.stages == "auto")
    return fsdp::pipeline_cuts(models::block_costs(options.model, options.model.context), stages);
  return read_cuts(options.stages, blocks, stages);
}

// Muon steps matrices of layers, of which each stage needs one.
void check_layers(const std::vector<models::ModelBlock>& blocks, const std::vector<int>& cuts) {
  auto block = blocks.begin();
  for (size_t stage = 0; stage < cuts.size(); block += cuts[stage++]) {
    if (std::any_of(block, block + cuts[stage], std::mem_fn(&models::ModelBlock::is_layer))) continue;
    throw fsdp::Error(
        fmt::format("--optimizer muon moves matrices of layers, and stage {} has none ({} from {} on). Choose --stages "
                    "with a layer in each, a smaller --pipeline-parallel, or --optimizer adamw.",
                    stage, counted(cuts[stage], "block"), block->name));
  }
}

}  // namespace

std::vector<std::string> stage_problems(const RunOptions& options) {
  std::vector<std::string> problems;
  if (options.pipeline_parallel == 1) return problems;
  const std::vector<models::ModelBlock> blocks = models::blocks(options.model);
  const auto most = std::ssize(blocks) / options.stages_per_rank;
  if (options.pipeline_parallel > most) {
    const std::string fewer =
        most > 0 ? fmt::format("--pipeline-parallel {} at most", most) : "fewer --stages-per-rank";
    return {
        fmt::format("--pipeline-parallel {} with {} per rank needs {} blocks, and the model has {}: {} and the "
                    "embedding, the last norm and the head among them. Use {}, or more --layers.",
                    options.pipeline_parallel, counted(options.stages_per_rank, "stage"), options.stage_count(),
                    blocks.size(), counted(options.model.layers, "layer"), fewer)};
  }
  std::vector<int> cuts;
  collect_problems_of("--stages", problems, [&] { cuts = cuts_of(options, static_cast<int>(blocks.size())); });
  if (problems.empty() && options.optimizer == "muon") collect_problems(problems, [&] { check_layers(blocks, cuts); });
  return problems;
}

}  // namespace trainer
