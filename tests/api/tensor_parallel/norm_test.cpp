// Norms over the parts of divided layers: the bits of one process with as many parts, and the same norm on every rank.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "api/tensor_parallel/parallel_models.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp::parallel_models {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kWideParts = 4;
constexpr int64_t kWide = 64, kWideHeads = 4, kSharedHeads = 2, kWords = 256;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Parts of each parameter are multiples of 64 elements. Two parts share a key head.
struct WideModel : nn::Module {
  explicit WideModel(const World& axis_)
      : axis(axis_),
        tokens(nn::EmbeddingOptions(kWords, kWide), axis_, TensorParallelOptions{.parts = kWideParts}),
        fused(nn::LinearOptions(kWide, (kWideHeads + 2 * kSharedHeads) * kWide), axis_,
              TensorParallelOptions{.parts = kWideParts,
                                    .blocks = {{kWideHeads, kWide}, {kSharedHeads, kWide}, {kSharedHeads, kWide}}}),
        out(nn::LinearOptions(kWideHeads * kWide, kWide), axis_, TensorParallelOptions{.parts = kWideParts}),
        norm(nn::LayerNormOptions({kWide})) {
    register_module("tokens", tokens), register_module("fused", fused);
    register_module("out", out), register_module("norm", norm);
  }
  Tensor loss(const Tensor& input, const Tensor& targets) {
    const Tensor x = tokens(input);
    const auto qkv = fused(norm(x)).split_with_sizes(fused->block_features(), -1);
    return linear_cross_entropy(x + out(qkv[0] * qkv[1] + qkv[2]), tokens->weight, targets,
                                {.divided_over = axis, .parts = kWideParts});
  }
  World axis;
  ParallelEmbedding tokens;
  ColumnParallelLinear fused;
  RowParallelLinear out;
  nn::LayerNorm norm;
};

WideModel wide_over(const World& axis) {
  torch::manual_seed(7);
  return WideModel(axis);
}

template <typename Model>
void run_backward(Model& model, int64_t micro_batch) {
  const auto [input, targets] = batch_of(micro_batch);
  model.loss(input, targets).backward();
}

// Norms before clipping, and the whole weights, after some steps over all micro-batches.
struct Clipped {
  std::vector<double> norms;
  NamedTensors weights;
};

constexpr int kClippedSteps = 3;

// Micro-batches `first`, `first + stride`, ... of `count` in each step.
Clipped train_clipped(WideModel& model, ShardedModel& sharded, int first, int stride, int count, double norm_type) {
  sharded.set_gradient_divisor(count);
  AdamW optimizer(sharded, {.lr = 1e-2});
  Clipped result;
  for (int step = 0; step < kClippedSteps; ++step) {
    for (int i = first; i < count; i += stride) run_backward(model, step * count + i);
    result.norms.push_back(sharded.clip_grad_norm_(0.1, norm_type));
    optimizer.step();
    optimizer.zero_grad();
  }
  result.weights = sharded.full_state();
  return result;
}

struct NormCase {
  int data, tensor;
  double norm_type = 2;
  friend void PrintTo(const NormCase& one, std::ostream* out) {
    *out << one.data << "x" << one.tensor << "_norm" << (one.norm_type > 10 ? 9 : static_cast<int>(one.norm_type));
  }
};

class DividedNorms : public ::testing::TestWithParam<NormCase> {};

TEST_P(DividedNorms, HaveTheBitsOfOneProcess) {
  const NormCase& one = GetParam();
  run_ranks(one.data * one.tensor, [&](World& world) {
    World alone = world.split(world.rank());
    WideModel whole = wide_over(alone);
    ShardedModel expected_model = shard(whole, alone);
    const Clipped expected = train_clipped(whole, expected_model, 0, 1, one.data, one.norm_type);
    const Mesh mesh(world, {{"data", one.data}, {"tensor", one.tensor}});
    WideModel divided = wide_over(mesh["tensor"]);
    const auto divisions = divisions_of(divided);
    ShardedModel sharded = shard(divided, mesh, "data");
    const Clipped found = train_clipped(divided, sharded, mesh.coordinate("data"), one.data, one.data, one.norm_type);
    EXPECT_EQ(found.norms, expected.norms);
    EXPECT_GT(expected.norms[0], 0.1);  // clipping does something
    const auto as_map = [](const NamedTensors& tensors) { return Values(tensors.begin(), tensors.end()); };
    expect_parts(as_map(found.weights), as_map(expected.weights), divisions);
  });
}

INSTANTIATE_TEST_SUITE_P(Meshes, DividedNorms,
                         drawn<NormCase>({{2, 2}, {3, 2}}, {{1, 2}, {1, 4}, {2, 1}, {2, 2, 1}, {2, 4, kInfinity}}),
                         ::testing::PrintToStringParamName());

TEST(DividedNorm, OfAModelThatIsNotShardedHasTheBitsOfOneProcess) {
  run_ranks(4, [](World& world) {
    WideModel whole = wide_over(world.split(world.rank())), divided = wide_over(world);
    run_backward(whole, 0), run_backward(divided, 0);
    for (const double max_norm : {1e9, 0.1}) {
      EXPECT_EQ(clip_grad_norm_(divided, max_norm), clip_grad_norm_(whole, max_norm));
      expect_parts(gradients_of(divided), gradients_of(whole), divisions_of(divided));
    }
    EXPECT_NEAR(clip_grad_norm_(whole, 1e9), 0.1, 1e-6);
  });
}

// Parts of 32 and 48 elements: blocks of 64 begin elsewhere, so a last bit may differ. All ranks have the same norm.
TEST(DividedNorm, CountsATiedWeightOnce) {
  torch::nn::Sequential model(torch::nn::Linear(torch::nn::LinearOptions(4, 4).bias(false)));
  const torch::Tensor weight = model->parameters()[0];
  model->register_parameter("copy", weight);
  weight.mutable_grad() = torch::full({4, 4}, 3.0f);
  EXPECT_EQ(clip_grad_norm_(*model, 6), 12);
  EXPECT_TRUE(weight.grad().allclose(torch::full({4, 4}, 1.5f)));
}

TEST(DividedNorm, OfPartsOfOtherWidthsIsTheSameOnEveryRank) {
  run_ranks(2, [](World& world) {
    World alone = world.split(world.rank());
    torch::manual_seed(7);
    DividedModel whole(alone, {.parts = 4});
    torch::manual_seed(7);
    DividedModel divided(world, {.parts = 4});
    ShardedModel sharded = shard(divided, alone);  // the layers' axis is found by itself
    run_backward(whole, 0), run_backward(divided, 0);
    const double expected = clip_grad_norm_(whole, 0.1), found = sharded.clip_grad_norm_(0.1);
    EXPECT_NEAR(found, expected, 1e-12 * expected);
    const auto all = world.all_gather(torch::tensor(found, torch::kFloat64));
    EXPECT_EQ(all[0].item<double>(), all[1].item<double>());
  });
}

TEST(DividedNorm, AnOverflowOnOneTensorRankIsSkippedByAll) {
  run_ranks(4, [](World& world) {
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
    WideModel divided = wide_over(mesh["tensor"]);
    ShardedModel sharded = shard(divided, mesh, "data");
    AdamW optimizer(sharded);
    GradScaler scaler({.init_scale = 1});
    for (const bool overflows : {true, false}) {
      run_backward(divided, mesh.coordinate("data"));
      if (overflows && mesh.coordinate("tensor") == 1 && mesh.coordinate("data") == 0)
        sharded.shards()[0].mutable_grad()[0].fill_(std::numeric_limits<float>::infinity());
      EXPECT_EQ(scaler.step(optimizer), !overflows);
      scaler.update();
      optimizer.zero_grad();
    }
    EXPECT_EQ(scaler.scale_value(), 0.5);
  });
}

// Rank 1 clips only when rank 0 has been seen to wait for it; after 20 seconds without, the test fails.
TEST(DividedNorm, WaitsForTheOtherPartsByName) {
  std::atomic<bool> is_seen = false;
  run_ranks(2, [&](World& world) {
    WideModel divided = wide_over(world);
    World alone = world.split(world.rank());
    ShardedModel sharded = shard(divided, alone);
    run_backward(divided, 0);
    world.barrier();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const auto wait_for = [&](const auto& condition) {
      while (!condition() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      return condition();
    };
    if (world.rank() == 0) {
      std::thread watcher([&] {
        EXPECT_TRUE(wait_for([&] { return sharded.waits_for().find("other parts") != std::string::npos; }));
        is_seen = true;
      });
      sharded.clip_grad_norm_(1);
      watcher.join();
    } else {
      wait_for([&] { return is_seen.load(); });
      sharded.clip_grad_norm_(1);
    }
    EXPECT_EQ(sharded.waits_for(), "");
  });
}

TEST(DividedNorm, ShardRefusesOtherValuesOfAWholeParameter) {
  run_ranks(4, [](World& world) {
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
    WideModel divided = wide_over(mesh["tensor"]);
    if (mesh.coordinate("tensor") == 1) divided.norm->weight.detach()[3] += 1;
    const int other = mesh["tensor"].all_gather(torch::tensor(world.rank()))[1].item<int>();
    EXPECT_THAT(message_of<Error>([&] { shard(divided, mesh, "data"); }),
                AllOf(HasSubstr("the values of norm.weight differ between rank "), HasSubstr("torch::manual_seed"),
                      HasSubstr("rank " + std::to_string(other) + " (data " + std::to_string(mesh.coordinate("data")) +
                                ", tensor 1)")));
  });
}

TEST(DividedNorm, ShardRefusesRanksThatHoldOtherParts) {
  run_ranks(4, [](World& world) {
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}}), other(world, {{"rows", 1}, {"columns", 4}});
    WideModel divided = wide_over(mesh["tensor"]);
    EXPECT_THAT(message_of<Error>([&] { shard(divided, world); }),
                AllOf(HasSubstr("expected this rank alone in both"), HasSubstr("{\"data\", 2}, {\"tensor\", 2}")));
    EXPECT_THAT(message_of<Error>([&] { shard(divided, other, "rows"); }), HasSubstr("no axis of the mesh"));
    ShardedModel sharded = shard(divided, mesh, "data");
    EXPECT_THAT(message_of<Error>([&] { clip_grad_norm_(divided, 1); }), HasSubstr("of its ShardedModel"));
  });
}

}  // namespace
}  // namespace fsdp::parallel_models
