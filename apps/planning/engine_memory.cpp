#include "planning/engine_memory.h"

#include <fsdp/error.h>

#include <algorithm>

#include "models/operators.h"
#include "plan/activations.h"
#include "planning/element_bytes.h"
#include "planning/kept_layers.h"
#include "planning/transformer_shape.h"

namespace trainer {

namespace {

constexpr double kFloat = 4;  // bytes
constexpr double kAdam = 8;   // for a parameter

double element_of(const std::string& dtype) { return static_cast<double>(element_bytes(dtype)); }

struct EngineSizes {
  double all, root, block;  // parameters; of a unit of layers
  double ranks;             // that hold the model once
  double element, reduced;  // bytes
};

ModelSizes model_sizes(const RunOptions& options) {
  const fsdp::plan::TransformerShape shape = transformer_shape(options.model);
  return {.all = shape.parameters(),
          .root = shape.root_parameters(),
          .block = std::min(shape.layers, options.layers_per_unit) * shape.block_parameters()};
}

EngineSizes sizes_of(const PlanTarget& target, const RunOptions& options, const ModelSizes& model) {
  const bool is_hybrid = options.strategy.starts_with("hybrid");
  const bool is_whole = options.strategy == "no-shard" || target.engine == "ddp";
  const int64_t of_strategy = is_hybrid ? options.ranks / target.hosts : options.ranks;
  const int64_t group = is_whole ? 1 : options.shard_group_size > 0 ? options.shard_group_size : of_strategy;
  return {.all = static_cast<double>(model.all),
          .root = static_cast<double>(model.root),
          .block = static_cast<double>(model.block),
          .ranks = static_cast<double>(group),
          .element = element_of(options.param_dtype),
          .reduced = element_of(options.reduce_dtype)};
}

PlannedMemory divided(const EngineSizes& sizes, bool stays_full) {
  const double shard = sizes.all / sizes.ranks;
  return {.parameters = kFloat * shard,
          .gradients = kFloat * shard,
          .optimizer = kAdam * shard,
          .full_parameters = sizes.element * (stays_full ? sizes.all : sizes.root + 2 * sizes.block),
          .full_gradients = sizes.element * (sizes.root + sizes.block) + sizes.reduced * sizes.block};
}

PlannedMemory state_of(const PlanTarget& target, const RunOptions& options, const ModelSizes& model) {
  const EngineSizes sizes = sizes_of(target, options, model);
  if (target.engine == "ddp" || options.strategy == "no-shard")
    return {.parameters = kFloat * sizes.all, .gradients = kFloat * sizes.all, .optimizer = kAdam * sizes.all};
  if (target.engine == "megatron") {
    const double own = sizes.all / static_cast<double>(options.ranks_of_replica());
    return {.parameters = (2 + kFloat) * own, .gradients = kFloat * own, .optimizer = kAdam * own};
  }
  PlannedMemory memory = divided(sizes, options.strategy.ends_with("shard-grad-op"));
  if (target.engine == "yafsdp") {
    memory.parameters += sizes.element * sizes.all / sizes.ranks;
    memory.full_parameters = sizes.element * (2 * sizes.block + sizes.root);
    memory.full_gradients = sizes.reduced * (sizes.block + sizes.root);
  }
  return memory;
}

double activations_of(const PlanTarget& target, const RunOptions& options) {
  const bool is_megatron = target.engine == "megatron";
  const fsdp::plan::ModelGraphs graphs = models::model_graphs(
      options.model, {.batch = options.batch,
                      .element_bytes = element_bytes(options.param_dtype),
                      .on_gpus = true,
                      .attention = is_megatron ? models::AttentionKind::Unfused : models::AttentionKind::Fused,
                      .tensor_ranks = options.tensor_parallel,
                      .sequence_parallel = options.sequence_parallel});
  const std::vector<fsdp::KeptResults> layers = kept_by_layers(options.recomputation(), options.model.layers);
  return static_cast<double>(activation_bytes(graphs, layers).peak);
}

// The logits of all tokens: their log-softmax and its gradient in the loss's dtype, and the logits where that is
// another.
double logits_of(const PlanTarget& target, const RunOptions& options) {
  const double element = element_of(options.param_dtype), in_loss = target.has_wide_loss ? kFloat : element;
  const double entries = static_cast<double>(options.batch * options.model.context) *
                         static_cast<double>(options.model.vocabulary) / static_cast<double>(options.tensor_parallel);
  return entries * (2 * in_loss + (in_loss == element ? 0 : element));
}

}  // namespace

PlannedMemory engine_memory(const PlanTarget& target, const RunOptions& options) {
  if (target.engine == "libfsdp")
    throw fsdp::Error("the memory of libfsdp is its own layout's (state_memory), not an engine's of others");
  PlannedMemory memory = state_of(target, options, model_sizes(options));
  memory.activations = activations_of(target, options);
  memory.others = logits_of(target, options);
  // Gradients come as activations go, unless earlier micro-batches left some.
  const double held = memory.parameters + memory.optimizer + memory.full_parameters;
  const double before = options.micro_batches > 1 ? memory.gradients : 0;
  const double begin = held + before + memory.activations + memory.others;
  const double end = held + memory.gradients + memory.full_gradients;
  memory.peak = std::max(begin, end);
  return memory;
}

PlannedMemory engine_state(const PlanTarget& target, const RunOptions& options, const ModelSizes& model) {
  PlannedMemory memory = state_of(target, options, model);
  memory.peak =
      memory.parameters + memory.optimizer + memory.full_parameters + memory.gradients + memory.full_gradients;
  return memory;
}

}  // namespace trainer
