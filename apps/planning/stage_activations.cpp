#include "planning/stage_activations.h"

#include <algorithm>

#include "models/block_costs.h"
#include "planning/host_memory.h"
#include "planning/options_of_rank.h"
#include "planning/stage_units.h"

namespace trainer {

namespace {

double element_bytes(const RunOptions& options) { return options.param_dtype == "fp32" ? 4 : 2; }
double tokens_of(const RunOptions& options) { return static_cast<double>(options.batch * options.model.context); }
double slices_of(const RunOptions& options) {
  return options.sequence_parallel ? static_cast<double>(options.tensor_parallel) : 1;
}

// Inputs and output gradients of a layer's products, each once: layers of one input follow each other.
double later_bytes(const RunOptions& options, const models::ModelBlock& block) {
  const models::TensorRank place = tensor_rank_of(options, 0);
  const double width = static_cast<double>(options.model.width) / slices_of(options);
  double features = 0;
  bool follows_column_layer = false;
  for (const models::Parameter& whole : block.parameters) {
    if (whole.kind != models::ParameterKind::Matrix || !whole.divided) {
      follows_column_layer = follows_column_layer && whole.kind == models::ParameterKind::Bias;
      continue;
    }
    const models::Parameter own = models::part_of(whole, place);
    const bool is_column_layer = whole.divided->dim == 0;
    features += is_column_layer ? static_cast<double>(own.shape[0]) + (follows_column_layer ? 0 : width)
                                : static_cast<double>(own.shape[1]) + width;
    follows_column_layer = is_column_layer;
  }
  return element_bytes(options) * tokens_of(options) * features;
}

// The head's rank works on logits; for the others a vocabulary of almost nothing stands.
RunOptions without_logits(RunOptions options) {
  options.model.vocabulary = 2;
  return options;
}

}  // namespace

double message_bytes(const RunOptions& options) {
  return element_bytes(options) * tokens_of(options) * static_cast<double>(options.model.width) / slices_of(options);
}

std::vector<StageBytes> stage_bytes(const RunPlan& plan, const PlannedMesh& mesh) {
  const std::vector<models::ModelBlock> blocks = models::blocks(plan.options.model);
  std::vector<StageBytes> stages;
  for (int stage = 0; stage < mesh.stages(); ++stage) {
    StageBytes& sum = stages.emplace_back();
    const int first = mesh.first_block(stage);
    for (int i = first; i < first + mesh.cuts[static_cast<size_t>(stage)]; ++i) {
      const BlockBytes block = plan.blocks.bytes(plan.options, i);
      sum.most = std::max(sum.most, sum.kept + block.most);  // blocks behind it are done when its backward runs
      sum.kept += block.kept;
      if (blocks[static_cast<size_t>(i)].is_layer)
        sum.later += later_bytes(plan.options, blocks[static_cast<size_t>(i)]);
    }
    sum.most = std::max(sum.most, sum.kept);
    if (stage + 1 < mesh.stages()) sum.output = message_bytes(plan.options);
  }
  return stages;
}

RankTensors tensors_of_rank(const RunPlan& plan, const PlannedMesh& mesh, int pipeline_rank) {
  const auto& actions = mesh.schedule.ranks[static_cast<size_t>(pipeline_rank)];
  const HeldBytes held = most_held(actions, stage_bytes(plan, mesh));
  const std::vector<int> own = mesh.stages_of(pipeline_rank);
  const bool has_head = own.back() + 1 == mesh.stages();
  const double ends = (own.front() > 0 ? 1 : 0) + (has_head && own.size() == 1 ? 0 : 1);
  RunOptions of_rank = options_of_rank(plan.options);
  of_rank.ranks = std::max<int64_t>(2, of_rank.ranks);  // gradients of parameters have buffers, or count as state
  return {.activations = plan.options.activation_memory ? plan.activations.bytes(of_rank) : held.activations,
          .messages = mesh.pipeline == 1 ? 0 : held.outputs + ends * message_bytes(plan.options),
          .others = other_tensor_bytes(plan, has_head ? of_rank : without_logits(of_rank))};
}

}  // namespace trainer
