// A language model in blocks, for fsdp::Pipeline.
//
//   models::PipelinedModel model(config, {.tensor = mesh["tensor"], .parts = 2});
//   fsdp::Pipeline pipeline = fsdp::deferred_init([&] { return fsdp::Pipeline(model.blocks(), mesh["pipeline"]); });
//   model.freeze(pipeline.stage(), frozen);
//   auto sharded = fsdp::shard(pipeline.stage(), mesh, "data", {.units = models::units_of_layers(pipeline.stage())});
//   pipeline.step(tokens, targets, [&](const auto& output, const auto& of) { return model.loss(output, of); });
#pragma once

#include <fsdp/options.h>
#include <fsdp/pipeline.h>
#include <torch/types.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "models/division.h"
#include "models/model_config.h"
#include "models/recomputation.h"

namespace models {

// The blocks of models::blocks(config). Parameters of the stages have the names, whole shapes and first values of
// make_model(config, division), and the default generator has the same state afterwards. A tied head is a copy,
// "lm_head.weight", which checkpoints do not have. Inputs of a pipeline are tokens [batch, length], int64. Its output
// is the head's input, [batch, length, width], so that logits are never whole: `loss` and `next_token_logits` multiply
// it with the head. Both are for the ranks of the last stage, whose pipeline must exist. One thread at a time.
class PipelinedModel {
 public:
  // Throws fsdp::Error as make_model does. Makes no parameters.
  explicit PipelinedModel(const ModelConfig& config, const Division& division = {},
                          const Recomputation& recomputation = {});

  // For one Pipeline. It holds what it needs of this object.
  std::vector<fsdp::PipelineBlock> blocks() const;
  // LanguageModel::loss of the output, also without gradients: for the outputs of Pipeline::forward.
  torch::Tensor loss(const torch::Tensor& output, const torch::Tensor& targets) const;
  // The logits [batch, vocabulary] of what follows the token at `position`: LanguageModel::next_token_logits of the
  // tokens up to it. Without gradients. -1: the last one. If the last stage is sharded or divided, a collective of its
  // ranks.
  torch::Tensor next_token_logits(const torch::Tensor& output, int64_t position = -1) const;
  // Tokens of a length that the pipeline can have, for `forward`: with sequence_parallel, zeros behind them make the
  // length a multiple of the parts. No earlier output depends on them.
  torch::Tensor padded(const torch::Tensor& tokens) const;
  // Parameters of a stage with these names of the whole model get no gradients. A tied head follows its embedding.
  // Before the stage is sharded.
  void freeze(torch::nn::Module& stage, const std::set<std::string>& names) const;

 private:
  struct State;
  // This rank's part of the head's weight.
  torch::Tensor head() const;

  std::shared_ptr<State> state_;
};

// Each layer of a model or a stage is a unit. A stage that is one layer, or has none, is one unit.
fsdp::UnitPolicy units_of_layers(const torch::nn::Module& stage);

}  // namespace models
