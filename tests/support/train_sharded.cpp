#include "support/train_sharded.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "engine/model.h"

namespace fsdp::testing_models {

Weights whole_weights(const torch::nn::Module& module, ShardedModel& sharded) {
  std::unordered_map<const at::TensorImpl*, std::string> names;  // the library's
  for (const auto& unit : sharded.model().units()) {
    for (const auto& parameter : unit->parameters) names[parameter.tensor().unsafeGetTensorImpl()] = parameter.name();
  }
  const NamedTensors state = sharded.full_state();
  Weights weights;
  for (const auto& parameter : module.named_parameters()) {
    const auto name = names.extract(parameter.value().unsafeGetTensorImpl());  // a tied one once
    if (name.empty()) continue;
    const auto whole =
        std::find_if(state.begin(), state.end(), [&](const auto& one) { return one.first == name.mapped(); });
    weights.emplace_back(parameter.key(), whole->second);
  }
  return weights;
}

void train(const TestModel& model, ShardedModel& sharded, World& world, const Training& training) {
  AdamW optimizer(sharded, {.lr = training.lr, .state_dtype = training.state_dtype});
  sharded.set_gradient_divisor(static_cast<double>(training.micro_batches));
  const int every = training.in_backward_every;
  for (int step = 0; step < training.steps; ++step) {
    std::optional<StepInBackward> in_backward;
    for (int64_t b = world.rank(); b < training.micro_batches; b += world.size()) {
      const bool last = b + world.size() >= training.micro_batches;
      if (last && every > 0 && step % every == every - 1) in_backward.emplace(optimizer.step_in_backward());
      model.loss(step * training.micro_batches + b).backward();
    }
    if (training.clip > 0) sharded.clip_grad_norm_(training.clip, training.clip_norm_type);
    optimizer.step();
    optimizer.zero_grad();
  }
}

const Weights& Expected::weights() {
  if (!weights_) weights_ = train_unsharded(make_(), training_);
  return *weights_;
}

CommunicationReport expect_same_bits(Expected& expected, World& world, Options options) {
  const TestModel model = expected.make();
  auto sharded = shard(*model.module, world, std::move(options));
  train(model, sharded, world, expected.training());
  const Weights found = whole_weights(*model.module, sharded);
  if (world.rank() == 0) EXPECT_THAT(differences(expected.weights(), found), ::testing::IsEmpty());
  return sharded.communication();
}

CommunicationReport expect_same_bits(const std::function<TestModel()>& make, World& world, const Training& training,
                                     Options options) {
  Expected expected(make, training);
  return expect_same_bits(expected, world, std::move(options));
}

std::vector<std::pair<std::string, Options>> every_strategy(int ranks) {
  std::vector<std::pair<std::string, Options>> strategies{{"FullShard", {}},
                                                          {"ShardGradOp", {.strategy = Strategy::ShardGradOp}},
                                                          {"ShardOptimizer", {.strategy = Strategy::ShardOptimizer}},
                                                          {"NoShard", {.strategy = Strategy::NoShard}}};
  if (ranks == 4) {
    strategies.push_back({"HybridShard", {.strategy = Strategy::HybridShard, .shard_group_size = 2}});
    strategies.push_back({"HybridShardGradOp", {.strategy = Strategy::HybridShardGradOp, .shard_group_size = 2}});
  }
  return strategies;
}

void expect_same_bits_with_every_strategy(const std::function<TestModel()>& make, World& world,
                                          const Training& training) {
  Expected expected(make, training);
  for (const auto& [name, options] : every_strategy(world.size())) {
    SCOPED_TRACE(name);
    expect_same_bits(expected, world, options);
  }
}

}  // namespace fsdp::testing_models
