// A transformer of divided layers has the bits of one process with as many parts, and the values of plain layers.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include "api/tensor_parallel/parallel_models.h"
#include "support/run_ranks.h"

namespace fsdp::parallel_models {
namespace {

using fsdp::testing::run_ranks;

constexpr int kParts = 4;

World alone_in(const World& world) { return world.split(world.rank()); }

DividedModel model_over(const World& axis, const TensorParallelOptions& options) {
  torch::manual_seed(7);
  return DividedModel(axis, options);
}

void expect_bits_of_one_process(World& world, const TensorParallelOptions& options) {
  DividedModel whole = model_over(alone_in(world), options), divided = model_over(world, options);
  const auto divisions = divisions_of(divided);
  EXPECT_EQ(divisions.size(), 6U);
  expect_parts(weights_of(divided), weights_of(whole), divisions);
  const Outcome expected = train(whole), found = train(divided);
  EXPECT_TRUE(torch::equal(found.losses, expected.losses)) << found.losses - expected.losses;
  expect_parts(found.gradients, expected.gradients, divisions);
  expect_parts(found.weights, expected.weights, divisions);
}

TEST(TensorParallel, HasTheBitsOfOneProcessOnTwoRanks) {
  run_ranks(2, [](World& world) { expect_bits_of_one_process(world, {.parts = kParts}); });
}

TEST(TensorParallel, HasTheBitsOfOneProcessOnFourRanks) {
  run_ranks(4, [](World& world) { expect_bits_of_one_process(world, {.parts = kParts}); });
}

TEST(TensorParallel, OfSlicesOfTheSequenceHasTheBitsOfOneProcessOnTwoRanks) {
  run_ranks(2, [](World& world) { expect_bits_of_one_process(world, {.parts = kParts, .sequence_parallel = true}); });
}

TEST(TensorParallel, OfSlicesOfTheSequenceHasTheBitsOfOneProcessOnFourRanks) {
  run_ranks(4, [](World& world) { expect_bits_of_one_process(world, {.parts = kParts, .sequence_parallel = true}); });
}

// Sums of up to 128 fp32 products near 1 are in another order: roundings of 1e-7, some ten of them in a row. A wrong
// factor or row is an error of more than 1e-2.
TEST(TensorParallel, HasTheValuesOfPlainLayers) {
  run_ranks(2, [](World& world) {
    for (const bool sequence_parallel : {false, true}) {
      DividedModel divided = model_over(world, {.parts = kParts, .sequence_parallel = sequence_parallel});
      torch::manual_seed(7);
      PlainModel plain;
      expect_parts(weights_of(divided), weights_of(plain), divisions_of(divided));
      const auto [input, targets] = batch_of(1);
      const Tensor loss = divided.loss(input, targets), expected = plain.loss(input, targets);
      EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5);
      loss.backward(), expected.backward();
      expect_parts(gradients_of(divided), gradients_of(plain), divisions_of(divided), 1e-5);
    }
  });
}

// Megatron#1446: norms between slices kept the gradient of their own slice.
TEST(TensorParallel, ParametersThatAllRanksHoldHaveEqualGradients) {
  run_ranks(2, [](World& world) {
    DividedModel divided = model_over(world, {.parts = kParts, .sequence_parallel = true});
    const Outcome found = train(divided, 1);
    const auto divisions = divisions_of(divided);
    int compared = 0;
    for (const auto& [name, gradient] : found.gradients) {
      if (divisions.contains(name)) continue;
      const auto of_ranks = world.all_gather(gradient);
      EXPECT_TRUE(torch::equal(of_ranks[0], of_ranks[1])) << name;
      EXPECT_GT(gradient.abs().max().item<float>(), 0) << name;
      ++compared;
    }
    EXPECT_EQ(compared, 6);  // 2 norms with 2 parameters, and 2 biases
  });
}

// The sharded model is divided along the other axis. One process adds up the same micro-batches.
TEST(TensorParallel, GoesWithShardingOverAnotherAxis) {
  run_ranks(4, [](World& world) {
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
    World data = mesh["data"], alone = alone_in(world);
    // Each layer and each norm is a unit, which is freed after its use.
    Options by_layer{.units = units_by([](const std::string& name, const auto&) { return name != "tokens"; })};
    for (const auto& [sequence_parallel, dtype] :
         {std::pair(false, torch::kFloat32), std::pair(true, torch::kFloat32), std::pair(true, torch::kBFloat16)}) {
      SCOPED_TRACE(fmt::format("{} {}", sequence_parallel, toString(dtype)));
      if (dtype != torch::kFloat32) by_layer.mixed_precision.param_dtype = dtype;
      const TensorParallelOptions options{.parts = kParts, .sequence_parallel = sequence_parallel};
      DividedModel divided = model_over(mesh["tensor"], options), whole = model_over(alone, options);
      const auto divisions = divisions_of(divided);
      ShardedModel sharded = shard(divided, data, by_layer), expected = shard(whole, alone, by_layer);
      AdamW optimizer(sharded, {.lr = 1e-2}), expected_optimizer(expected, {.lr = 1e-2});
      sharded.set_gradient_divisor(2), expected.set_gradient_divisor(2);
      for (int step = 0; step < 3; ++step) {
        const auto backward_of = [&](DividedModel& model, int64_t micro_batch) {
          const auto [input, targets] = batch_of(step * 2 + micro_batch);
          model.loss(input, targets).backward();
        };
        backward_of(divided, mesh.coordinate("data"));
        for (const int64_t micro_batch : {0, 1}) backward_of(whole, micro_batch);
        optimizer.step(), optimizer.zero_grad();
        expected_optimizer.step(), expected_optimizer.zero_grad();
      }
      const auto scope = sharded.full_parameters();
      const auto expected_scope = expected.full_parameters();
      expect_parts(weights_of(divided), weights_of(whole), divisions);
    }
  });
}

}  // namespace
}  // namespace fsdp::parallel_models
