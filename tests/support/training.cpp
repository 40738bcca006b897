#include "support/training.h"

namespace fsdp::testing_models {

Weights whole_weights(const torch::nn::Module& module, ShardedModel& sharded) {
  FullParameters scope = sharded.full_parameters({.write_back = false});
  Weights weights;
  for (const auto& parameter : module.named_parameters()) {
    weights.emplace_back(parameter.key(), parameter.value().detach().clone());
  }
  scope.close();
  return weights;
}

Weights train_sharded(const TestModel& model, World& world, const Training& training, const Options& options) {
  auto sharded = shard(*model.module, world, options);
  AdamW optimizer(sharded, {.lr = training.lr});
  sharded.set_gradient_divisor(static_cast<double>(training.micro_batches));
  for (int step = 0; step < training.steps; ++step) {
    for (int64_t b = world.rank(); b < training.micro_batches; b += world.size()) {
      model.loss(step * training.micro_batches + b).backward();
    }
    if (training.clip > 0) sharded.clip_grad_norm_(training.clip);
    optimizer.step();
    optimizer.zero_grad();
  }
  return whole_weights(*model.module, sharded);
}

}  // namespace fsdp::testing_models
