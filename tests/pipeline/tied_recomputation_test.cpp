// A tied weight in a recomputed block of a sharded stage.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <string>

#include "support/run_ranks.h"

namespace fsdp {
namespace {

struct TiedLayerImpl : torch::nn::Module {
  explicit TiedLayerImpl(bool recomputed)
      : recomputed(recomputed),
        linear(register_module("linear", torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false)))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    const auto run = [this](const torch::Tensor& y) { return torch::tanh(linear(y)); };
    return recomputed ? activation_checkpoint(run, x) : run(x);
  }

  bool recomputed;
  torch::nn::Linear linear;
};

torch::Tensor weight_after_two_steps(World& world, World& alone, PipelineSchedule schedule, bool recomputed) {
  torch::manual_seed(1);
  std::vector<PipelineBlock> blocks{pipeline_block<TiedLayerImpl>("a", false),
                                    pipeline_block<TiedLayerImpl>("b", recomputed)};
  blocks[1].shares = {{"linear.weight", "a.linear.weight"}};
  Pipeline pipeline(blocks, world, {.schedule = schedule});
  ShardedModel sharded = shard(pipeline.stage(), alone);
  SGD optimizer(sharded, {.lr = 0.1});
  for (int step = 0; step < 2; ++step) {
    const Tensors batches(3, torch::ones({2, 3, 8}) + step);  // three dimensions: the product folds the first two
    pipeline.step(batches, batches, [](const torch::Tensor& output, const torch::Tensor& target) {
      return (output - target).square().mean();
    });
    optimizer.step();
    optimizer.zero_grad();
  }
  return sharded.full_state()[0].second;
}

// The first part of a divided backward sets the hooks of tied parameters aside, and recomputes.
TEST(TiedRecomputation, HasTheSameBitsWithDividedBackwards) {
  testing::run_ranks(2, [](World& world) {
    World alone = world.split(world.rank());
    const torch::Tensor expected =
        weight_after_two_steps(world, alone, PipelineSchedule::OneForwardOneBackward, /*recomputed=*/false);
    for (const bool recomputed : {false, true}) {
      EXPECT_TRUE(weight_after_two_steps(world, alone, PipelineSchedule::ZeroBubble, recomputed).equal(expected));
    }
  });
}

}  // namespace
}  // namespace fsdp
