#include "planning/stage_activations.h"

#include <algorithm>
#include <numeric>

#include "models/block_costs.h"
#include "plan/tensor_peak.h"
#include "planning/element_bytes.h"
#include "planning/planned_activations.h"
#include "planning/run_graphs.h"
#include "planning/stage_blocks.h"

namespace trainer {

namespace {

using fsdp::plan::Pieces;

double bytes_of_element(const RunOptions& options) { return static_cast<double>(element_bytes(options.param_dtype)); }
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
  return bytes_of_element(options) * tokens_of(options) * features;
}

// The blocks of a mesh as pieces of the model's graphs.
class StagePieces {
 public:
  StagePieces(const RunPlan& plan, const fsdp::plan::Mesh& mesh)
      : mesh_(mesh),
        graphs_(run_graphs(plan.options, plan.host.on_gpus)),
        pieces_(pieces_of(graphs_, kept_by_layers(plan.options))) {
    const std::vector<models::ModelBlock> blocks = models::blocks(plan.options.model);
    first_layer_ = static_cast<int>(std::ranges::find(blocks, true, &models::ModelBlock::is_layer) - blocks.begin());
    blocks_ = static_cast<int>(blocks.size());
  }

  Pieces of(int stage) const { return {piece_of(mesh_.first_block(stage)), piece_of(mesh_.end_block(stage))}; }

 private:
  // The embeddings' piece goes with the last block before the layers. BERT has more blocks behind its layers than
  // pieces: there the head's goes with the second.
  Pieces::const_iterator piece_of(int block) const {
    const auto pieces = static_cast<int>(pieces_.size());
    return pieces_.begin() + (block == blocks_ ? pieces : std::clamp(block - first_layer_ + 1, 0, pieces));
  }

  const fsdp::plan::Mesh& mesh_;
  fsdp::plan::ModelGraphs graphs_;
  Pieces pieces_;
  int first_layer_ = 0, blocks_ = 0;
};

// By block.
std::vector<double> later_bytes_of(const RunOptions& options) {
  const std::vector<models::ModelBlock> blocks = models::blocks(options.model);
  const auto first = std::ranges::find(blocks, true, &models::ModelBlock::is_layer);
  const double of_layer = first == blocks.end() ? 0 : later_bytes(options, *first);  // layers are alike
  std::vector<double> bytes;
  for (const models::ModelBlock& block : blocks) bytes.push_back(block.is_layer ? of_layer : 0);
  return bytes;
}

// Gradients of parameters have buffers, or count as state.
double others_of(const Pieces& pieces, const fsdp::plan::ActivationBytes& activations) {
  return static_cast<double>(tensor_peak_bytes(pieces, {}) - activations.peak);
}

}  // namespace

double message_bytes(const RunOptions& options) {
  return bytes_of_element(options) * tokens_of(options) * static_cast<double>(options.model.width) / slices_of(options);
}

StageTensors stage_tensors(const RunPlan& plan, const fsdp::plan::Mesh& mesh) {
  const StagePieces pieces(plan, mesh);
  const std::vector<double> later = later_bytes_of(plan.options);
  StageTensors stages;
  for (int stage = 0; stage < mesh.stages(); ++stage) {
    const Pieces own = pieces.of(stage);
    const fsdp::plan::ActivationBytes bytes = activation_bytes(own);
    stages.bytes.push_back(
        {.kept = static_cast<double>(bytes.forward),
         .most = static_cast<double>(bytes.peak),
         .later = std::accumulate(later.begin() + mesh.first_block(stage), later.begin() + mesh.end_block(stage), 0.0),
         .output = stage + 1 < mesh.stages() ? message_bytes(plan.options) : 0});
    stages.others.push_back(others_of(own, bytes));
  }
  return stages;
}

RankTensors tensors_of_rank(const RunPlan& plan, const fsdp::plan::Mesh& mesh, int pipeline_rank) {
  return tensors_of_rank(plan, mesh, stage_tensors(plan, mesh), pipeline_rank);
}

RankTensors tensors_of_rank(const RunPlan& plan, const fsdp::plan::Mesh& mesh, const StageTensors& stages,
                            int pipeline_rank) {
  const auto& actions = mesh.schedule.ranks[static_cast<size_t>(pipeline_rank)];
  const fsdp::plan::HeldBytes held = most_held(actions, stages.bytes);
  const std::vector<int> own = mesh.stages_of(pipeline_rank);
  const bool has_head = own.back() + 1 == mesh.stages();
  const double ends = (own.front() > 0 ? 1 : 0) + (has_head && own.size() == 1 ? 0 : 1);
  const bool has_budget = plan.options.activation_memory.has_value();  // without a pipeline
  RankTensors tensors{
      .activations = has_budget ? planned_activations(plan.options, plan.host.on_gpus).in_memory : held.activations,
      .messages = mesh.sizes.pipeline == 1 ? 0 : held.outputs + ends * message_bytes(plan.options)};
  for (const int stage : own) tensors.others = std::max(tensors.others, stages.others[static_cast<size_t>(stage)]);
  return tensors;
}

}  // namespace trainer
