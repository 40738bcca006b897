// A training that a test saves, on each rank.
#pragma once

#include <fsdp/fsdp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "support/models.h"

namespace fsdp::testing {

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(ShardedModel&)>;

struct TrainingKind {
  std::function<testing_models::TestModel()> make = [] { return testing_models::make_gpt(); };
  Options options = {};
  MakeOptimizer make_optimizer = [](ShardedModel& sharded) {
    return std::make_unique<AdamW>(sharded, AdamWOptions{.lr = 1e-2});
  };
  bool steps_in_backward = false;
};

// Made on every rank, and all of its functions are collectives but `checkpoint`.
struct SavedTraining {
  explicit SavedTraining(World& world, TrainingKind kind = {}) : world(world), kind(std::move(kind)) {}

  void step() {
    const torch::Tensor loss = model.loss(steps++ * world.size() + world.rank());
    if (kind.steps_in_backward) {
      const auto scope = dynamic_cast<PieceOptimizer&>(*optimizer).step_in_backward();
      loss.backward();
    } else {
      loss.backward();
    }
    optimizer->step();
    optimizer->zero_grad();
  }
  void step_to(int64_t last) {
    while (steps < last) step();
  }
  Checkpoint checkpoint() { return {.model = &sharded, .optimizer = optimizer.get(), .step = steps}; }

  World& world;
  TrainingKind kind;
  testing_models::TestModel model = kind.make();
  ShardedModel sharded = shard(*model.module, world, kind.options);
  std::unique_ptr<Optimizer> optimizer = kind.make_optimizer(sharded);
  int64_t steps = 0;
};

}  // namespace fsdp::testing
