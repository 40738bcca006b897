// Three axes: blocks of divided layers, in stages, sharded over data.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/drawn.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

namespace nn = torch::nn;
using fsdp::testing::run_ranks;

constexpr int64_t kTokens = 128, kFeatures = 64, kLength = 4;
constexpr int kTensorParts = 2, kRounds = 2, kTrainedSteps = 3;

struct TokensImpl : nn::Module {
  explicit TokensImpl(const World& axis) {
    table = register_module("table", ParallelEmbedding(nn::EmbeddingOptions(kTokens, kFeatures), axis,
                                                       TensorParallelOptions{.parts = kTensorParts}));
  }
  torch::Tensor forward(const torch::Tensor& tokens) { return table(tokens); }
  ParallelEmbedding table = nullptr;
};

struct DividedBlockImpl : nn::Module {
  explicit DividedBlockImpl(const World& axis) {
    const TensorParallelOptions parallel{.parts = kTensorParts};
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kFeatures})));
    up = register_module("up", ColumnParallelLinear(nn::LinearOptions(kFeatures, 4 * kFeatures), axis, parallel));
    down = register_module("down", RowParallelLinear(nn::LinearOptions(4 * kFeatures, kFeatures), axis, parallel));
  }
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }
  nn::LayerNorm norm = nullptr;
  ColumnParallelLinear up = nullptr;
  RowParallelLinear down = nullptr;
};

struct WholeHeadImpl : nn::Module {
  WholeHeadImpl() { out = register_module("out", nn::Linear(kFeatures, kTokens)); }
  torch::Tensor forward(const torch::Tensor& x) { return out(x); }
  nn::Linear out = nullptr;
};

std::vector<PipelineBlock> divided_blocks(const World& axis) {
  return {pipeline_block<TokensImpl>("tokens", axis), pipeline_block<DividedBlockImpl>("blocks.0", axis),
          pipeline_block<DividedBlockImpl>("blocks.1", axis), pipeline_block<WholeHeadImpl>("head")};
}

torch::Tensor loss_of(const torch::Tensor& logits, const torch::Tensor& targets) {
  return nn::functional::cross_entropy(logits.flatten(0, 1), targets.flatten());
}

torch::Tensor some_tokens(int number) {
  const auto numbers = torch::arange(2 * kLength, torch::kLong) * 7 + number * 13;
  return (numbers * numbers % 101).view({2, kLength});
}

struct AxesCase {
  int data, stages, tensor;
  bool frozen = false;  // the first stage

  friend void PrintTo(const AxesCase& one, std::ostream* out) {
    *out << one.data << "x" << one.stages << "x" << one.tensor << (one.frozen ? "_frozen" : "");
  }
};

void freeze(nn::Module& stage, const AxesCase& one) {
  if (!one.frozen) return;
  for (const auto& parameter : stage.named_parameters()) {
    if (!parameter.key().starts_with("blocks.1") && !parameter.key().starts_with("head"))
      parameter.value().requires_grad_(false);
  }
}

// Returns the norms. Each rank of `data` runs its micro-batches of each round; micro-batch b of rank r has the number b
// * size + r.
std::vector<double> train_on_mesh(const Mesh& mesh, const AxesCase& one) {
  torch::manual_seed(3);
  const int data = mesh.coordinate("data");
  Pipeline pipeline(divided_blocks(mesh["tensor"]), mesh["pipeline"]);
  freeze(pipeline.stage(), one);
  ShardedModel sharded = shard(pipeline.stage(), mesh, "data");
  AdamW optimizer(sharded, {.lr = 1e-2});
  std::vector<double> norms;
  for (int step = 0; step < kTrainedSteps; ++step) {
    Tensors inputs, targets;
    for (int i = 0; i < kRounds; ++i) {
      const int number = (step * kRounds + i) * one.data + data;
      inputs.push_back(some_tokens(number)), targets.push_back(some_tokens(number + 1));
    }
    pipeline.step(inputs, targets, loss_of);
    norms.push_back(sharded.clip_grad_norm_(0.1));
    optimizer.step();
    optimizer.zero_grad();
  }
  return norms;
}

std::vector<double> train_alone(World alone, const AxesCase& one) {
  torch::manual_seed(3);
  Pipeline pipeline(divided_blocks(alone), alone);
  freeze(pipeline.stage(), one);
  ShardedModel sharded = shard(pipeline.stage(), alone);
  sharded.set_gradient_divisor(one.data);
  AdamW optimizer(sharded, {.lr = 1e-2});
  std::vector<double> norms;
  for (int step = 0; step < kTrainedSteps; ++step) {
    for (int i = 0; i < kRounds * one.data; ++i) {
      const int number = step * kRounds * one.data + i;
      pipeline.step({some_tokens(number)}, {some_tokens(number + 1)},
                    [](const auto& logits, const auto& targets) { return loss_of(logits, targets) / kRounds; });
    }
    norms.push_back(sharded.clip_grad_norm_(0.1));
    optimizer.step();
    optimizer.zero_grad();
  }
  return norms;
}

Mesh mesh_of(const World& world, const AxesCase& one) {
  return Mesh(world, {{"data", one.data}, {"pipeline", one.stages}, {"tensor", one.tensor}});
}

class ThreeAxes : public ::testing::TestWithParam<AxesCase> {};

TEST_P(ThreeAxes, HaveTheNormsOfOneProcess) {
  const AxesCase& one = GetParam();
  run_ranks(one.data * one.stages * one.tensor, [&](World& world) {
    const std::vector<double> expected = train_alone(world.split(world.rank()), one);
    EXPECT_GT(expected[0], 0.1);
    EXPECT_EQ(train_on_mesh(mesh_of(world, one), one), expected);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, ThreeAxes,
    fsdp::testing::drawn<AxesCase>({{2, 2, 2}}, {{1, 2, 2}, {2, 1, 2}, {2, 2, 1}, {2, 2, 1, true}, {2, 2, 2, true}}),
    ::testing::PrintToStringParamName());

TEST(ThreeAxesUnsharded, PipelineClipsByTheNormOfOneProcess) {
  run_ranks(4, [](World& world) {
    const auto norms_over = [](const World& stages, const World& tensor) {
      torch::manual_seed(3);
      Pipeline pipeline(divided_blocks(tensor), stages);
      std::vector<double> norms;
      for (int step = 0; step < 2; ++step) {
        pipeline.step({some_tokens(step)}, {some_tokens(step + 1)}, loss_of);
        norms.push_back(pipeline.clip_grad_norm_(0.1));
      }
      return norms;
    };
    const World alone = world.split(world.rank());
    const Mesh mesh(world, {{"pipeline", 2}, {"tensor", 2}});
    EXPECT_EQ(norms_over(mesh["pipeline"], mesh["tensor"]), norms_over(alone, alone));
  });
}

TEST(ThreeAxesScaled, AnOverflowOnOneStageIsSkippedByAll) {
  run_ranks(8, [](World& world) {
    for (const bool frozen : {false, true}) {
      const AxesCase one{2, 2, 2, frozen};
      const Mesh mesh = mesh_of(world, one);
      torch::manual_seed(3);
      Pipeline pipeline(divided_blocks(mesh["tensor"]), mesh["pipeline"]);
      freeze(pipeline.stage(), one);
      ShardedModel sharded = shard(pipeline.stage(), mesh, "data");
      AdamW optimizer(sharded);
      GradScaler scaler({.init_scale = 1});
      for (const bool overflows : {true, false}) {
        pipeline.step({some_tokens(0)}, {some_tokens(1)}, loss_of);
        const bool here = mesh.coordinate("pipeline") == 1 && mesh.coordinate("tensor") == 1;
        if (overflows && here && mesh.coordinate("data") == 0)
          sharded.shards()[0].mutable_grad()[0].fill_(std::numeric_limits<float>::infinity());
        EXPECT_EQ(scaler.step(optimizer), !overflows);
        scaler.update();
        optimizer.zero_grad();
      }
      EXPECT_EQ(scaler.scale_value(), 0.5);
    }
  });
}

}  // namespace
}  // namespace fsdp
