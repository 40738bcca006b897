// The memory that a step inside the backward saves: docs/memory.md, "In the run".
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <optional>

#include "engine/model.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::Job;
using fsdp::testing::run_ranks;

constexpr int kLayers = 20, kRanks = 2;
constexpr int64_t kWidth = 1024;  // 21 million parameters
constexpr int kGradientBuffers = 2;

// As many linear layers, each a unit.
torch::nn::Sequential make_layers() {
  torch::nn::Sequential layers;
  for (int i = 0; i < kLayers; ++i) layers->push_back(torch::nn::Linear(kWidth, kWidth));
  return layers;
}

// The most that is held for sums of gradients while a backward runs, and when it has ended.
int64_t most_held_in_backward(torch::nn::Sequential& layers, const ShardedModel& sharded) {
  int64_t most = 0;
  const auto look = [&] { most = std::max(most, sharded.memory().gradient_bytes); };
  torch::Tensor x = torch::full({4, kWidth}, 0.1);
  for (auto& layer : *layers) {
    x = torch::tanh(layer.forward<torch::Tensor>(x));
    x.register_hook([&](const torch::Tensor&) { look(); });
  }
  x.sum().backward();
  look();
  return most;
}

int64_t most_held_in_steps(World& world, bool inside) {
  auto layers = make_layers();
  auto sharded = shard(*layers, world, {.units = units_of<torch::nn::LinearImpl>()});
  SGD optimizer(sharded);
  int64_t most = 0;
  for (int step = 0; step < 3; ++step) {  // the first records
    std::optional<StepInBackward> scope;
    if (inside) scope.emplace(optimizer.step_in_backward());
    most = most_held_in_backward(layers, sharded);
    optimizer.step();
    optimizer.zero_grad();
  }
  return most;
}

class StepInBackwardMemory : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, StepInBackwardMemory, ::testing::Values(Job{kRanks, "gloo"}, Job{kRanks, "shm"}),
                         ::testing::PrintToStringParamName());

// Without it: the sums of all shards. With it: those of the units that are completed, reduced, or left to the end.
TEST_P(StepInBackwardMemory, IsThatOfAFewUnitsInPlaceOfAll) {
  run_ranks(GetParam(), [](World& world) {
    const int64_t of_unit = 4 * (kWidth * kWidth + kWidth) / kRanks;
    EXPECT_EQ(most_held_in_steps(world, /*inside=*/false), kLayers * of_unit);
    EXPECT_LE(most_held_in_steps(world, /*inside=*/true), (kGradientBuffers + 2) * of_unit);
  });
}

}  // namespace
}  // namespace fsdp
