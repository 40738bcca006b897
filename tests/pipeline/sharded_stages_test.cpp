// Stages that are sharded over another axis of a mesh.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pipeline/small_gpt.h"
#include "support/drawn.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using testing_models::blocks_of;
using testing_models::next_tokens_of;
using testing_models::SmallGpt;
using testing_models::token_loss;
using testing_models::tokens_of;

struct ShardedCase {
  Strategy strategy;
  PipelineSchedule schedule;
  int data = 2, stages = 2, stages_per_rank = 1;
  bool tied = false;
  bool divides_loss = true;  // otherwise the sum of the gradients is divided, once

  friend void PrintTo(const ShardedCase& one, std::ostream* out) {
    *out << "Strategy" << static_cast<int>(one.strategy) << "_" << static_cast<int>(one.schedule) << "_" << one.data
         << "x" << one.stages << "x" << one.stages_per_rank << (one.tied ? "_tied" : "")
         << (one.divides_loss ? "" : "_sum");
  }
};

constexpr int kShardedMicroBatches = 3, kShardedSteps = 3;

struct ShardedResult {
  std::vector<double> losses;
  NamedTensors weights;
};

// Micro-batches of a data rank. The sum over ranks and micro-batches has the order of one process: for each round the
// ranks in their order.
Tensors tokens_of_rank(const SmallGpt& model, int step, int data_rank, int data, bool next) {
  Tensors tokens;
  for (int i = 0; i < kShardedMicroBatches; ++i) {
    const int number = i * data + data_rank;
    tokens.push_back(next ? next_tokens_of(model, step, number, 1 + i) : tokens_of(model, step, number, 1 + i));
  }
  return tokens;
}

// Trains a stage over `pipeline`, sharded over `data`.
ShardedResult train_sharded_stage(World pipeline_axis, World data_axis, const ShardedCase& one) {
  const SmallGpt model{.dropout = 0, .tied = one.tied};
  torch::manual_seed(5);
  Pipeline pipeline(
      blocks_of(model), pipeline_axis,
      {.schedule = one.schedule, .stages_per_rank = one.stages_per_rank, .divides_loss = one.divides_loss});
  ShardedModel sharded = shard(pipeline.stage(), data_axis, {.strategy = one.strategy});
  if (!one.divides_loss) sharded.set_gradient_divisor(one.data * kShardedMicroBatches);
  AdamW optimizer(sharded, {.lr = 1e-2});
  ShardedResult result;
  for (int step = 0; step < kShardedSteps; ++step) {
    result.losses.push_back(
        pipeline.step(tokens_of_rank(model, step, data_axis.rank(), data_axis.size(), /*next=*/false),
                      tokens_of_rank(model, step, data_axis.rank(), data_axis.size(), /*next=*/true), token_loss));
    result.losses.push_back(sharded.clip_grad_norm_(0.5));
    optimizer.step();
    optimizer.zero_grad();
  }
  result.weights = sharded.full_state();
  return result;
}

// The same on one rank: a plain loop over the micro-batches of all data ranks, in rounds.
ShardedResult train_in_rounds(World alone, const ShardedCase& one) {
  const SmallGpt model{.dropout = 0, .tied = one.tied};
  torch::manual_seed(5);
  Pipeline pipeline(blocks_of(model), alone);
  ShardedModel sharded = shard(pipeline.stage(), alone, {.strategy = Strategy::NoShard});
  sharded.set_gradient_divisor(one.divides_loss ? one.data : one.data * kShardedMicroBatches);
  double sum = 0;
  const auto share_of_loss = [&](const torch::Tensor& output, const torch::Tensor& target) {
    const torch::Tensor loss = token_loss(output, target);
    sum += loss.item<double>();
    return one.divides_loss ? loss / kShardedMicroBatches : loss;
  };
  AdamW optimizer(sharded, {.lr = 1e-2});
  ShardedResult result;
  for (int step = 0; step < kShardedSteps; ++step) {
    std::vector<double> losses(one.data);
    for (int i = 0; i < kShardedMicroBatches; ++i) {
      for (int rank = 0; rank < one.data; ++rank) {
        const Tensors inputs = tokens_of_rank(model, step, rank, one.data, false);
        const Tensors targets = tokens_of_rank(model, step, rank, one.data, true);
        sum = losses[rank];
        pipeline.step({inputs[i]}, {targets[i]}, share_of_loss);
        losses[rank] = sum;
      }
    }
    result.losses.push_back(losses[0] / kShardedMicroBatches);
    result.losses.push_back(sharded.clip_grad_norm_(0.5));
    optimizer.step();
    optimizer.zero_grad();
  }
  result.weights = sharded.full_state();
  return result;
}

// Clipping multiplies all copies by the same factors, although it counts one alone.
void expect_equal_copies(const NamedTensors& weights) {
  torch::Tensor home, copy;
  for (const auto& [name, weight] : weights) {
    if (name == "words.table.weight") home = weight;
    if (name == "logits.out.weight") copy = weight;
  }
  EXPECT_TRUE(torch::equal(home, copy));
}

class ShardedStages : public ::testing::TestWithParam<ShardedCase> {};

TEST_P(ShardedStages, HaveTheBitsOfOneProcess) {
  const ShardedCase& one = GetParam();
  run_ranks(one.data * one.stages, [&](World& world) {
    const ShardedResult expected = train_in_rounds(world.split(world.rank()), one);
    if (one.tied) expect_equal_copies(expected.weights);
    const Mesh mesh(world, {{"pipeline", one.stages}, {"data", one.data}});
    const ShardedResult found = train_sharded_stage(mesh["pipeline"], mesh["data"], one);
    if (mesh.coordinate("data") == 0) {
      EXPECT_EQ(found.losses, expected.losses);
    }
    for (const auto& [name, weight] : found.weights) {
      bool exists = false;
      for (const auto& [other, value] : expected.weights) {
        if (other != name) continue;
        exists = true;
        EXPECT_TRUE(torch::equal(weight, value)) << name;
      }
      EXPECT_TRUE(exists) << name;
    }
  });
}

using enum PipelineSchedule;
INSTANTIATE_TEST_SUITE_P(
    Meshes, ShardedStages,
    fsdp::testing::drawn<ShardedCase>({{Strategy::FullShard, OneForwardOneBackward, 3, 2},
                                       {Strategy::NoShard, ZeroBubble, 2, 2, 1, true}},
                                      {{Strategy::FullShard, OneForwardOneBackward},
                                       {Strategy::FullShard, AllForwardAllBackward, 2, 1},
                                       {Strategy::FullShard, Interleaved, 2, 2, 2},
                                       {Strategy::FullShard, ZeroBubble},
                                       {Strategy::ShardGradOp, OneForwardOneBackward},
                                       {Strategy::ShardGradOp, ZeroBubble},
                                       {Strategy::ShardOptimizer, OneForwardOneBackward},
                                       {Strategy::NoShard, Interleaved, 2, 2, 2},
                                       {Strategy::NoShard, ZeroBubble},
                                       {Strategy::FullShard, OneForwardOneBackward, 2, 2, 1, true},
                                       {Strategy::FullShard, Interleaved, 3, 2, 2, true},
                                       {Strategy::ShardOptimizer, OneForwardOneBackward, 2, 1, 1, true},
                                       {Strategy::ShardGradOp, OneForwardOneBackward, 2, 3, 1, true},
                                       {Strategy::FullShard, OneForwardOneBackward, 2, 2, 1, false, false},
                                       {Strategy::NoShard, ZeroBubble, 2, 2, 1, true, false}}),
    [](const auto& info) { return ::testing::PrintToString(info.param); });

}  // namespace
}  // namespace fsdp
