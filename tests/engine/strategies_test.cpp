// Every strategy gives the bits of one process, and holds what docs/memory.md says.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "engine/model.h"
#include "support/drawn.h"
#include "support/models.h"
#include "support/oracle.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/train_sharded.h"
#include "support/variable.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::run_ranks;
using ::testing::IsEmpty;
using testing_models::make_gpt;

struct StrategyChoice {
  std::string name;
  Strategy strategy;
  int shard_group_size = 0;
};

std::vector<StrategyChoice> choices_for(int ranks) {
  std::vector<StrategyChoice> choices{{"ShardGradOp", Strategy::ShardGradOp},
                                      {"ShardOptimizer", Strategy::ShardOptimizer},
                                      {"NoShard", Strategy::NoShard},
                                      {"HybridShard of the host", Strategy::HybridShard}};
  for (int size = 1; size < ranks; ++size) {
    if (ranks % size != 0) continue;
    choices.push_back({"HybridShard of " + std::to_string(size), Strategy::HybridShard, size});
    choices.push_back({"HybridShardGradOp of " + std::to_string(size), Strategy::HybridShardGradOp, size});
    choices.push_back({"ShardOptimizer of " + std::to_string(size), Strategy::ShardOptimizer, size});
  }
  return choices;
}

class Strategies : public ::testing::TestWithParam<int> {};

TEST_P(Strategies, GiveTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    const testing_models::Training training{.steps = 4, .micro_batches = 2 * world.size(), .clip = 0.05};
    for (const auto& kind : testing_models::model_kinds()) {
      testing_models::Expected expected(kind.make, training);
      for (const StrategyChoice& choice : choices_for(world.size())) {
        SCOPED_TRACE(kind.name + ", " + choice.name);
        testing_models::expect_same_bits(expected, world,
                                         {.strategy = choice.strategy, .shard_group_size = choice.shard_group_size});
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Strategies, drawn<int>({3}, {1, 2, 4}), ::testing::PrintToStringParamName());

// The sizes that docs/memory.md computes with, in elements.
struct BufferSizes {
  int64_t shards = 0, full = 0, largest = 0, pieces = 0;
  int64_t sums = 0, largest_gradients = 0, largest_slice = 0;
};

BufferSizes buffer_sizes_of(ShardedModel& sharded, int rank) {
  BufferSizes sizes;
  for (const auto& unit : sharded.model().units()) {
    const layout::GradientLayout& gradients = unit->sum.gradient_layout();
    sizes.shards += unit->layout.shard_numel();
    sizes.full += unit->layout.full_numel();
    sizes.largest = std::max(sizes.largest, unit->layout.full_numel());
    sizes.sums += gradients.shard_of(rank).numel();
    sizes.largest_gradients = std::max(sizes.largest_gradients, gradients.full_numel());
    sizes.largest_slice = std::max(sizes.largest_slice, gradients.slice_of(rank).numel());
  }
  for (const auto& parameter : sharded.parameters()) sizes.pieces += parameter.piece.numel();
  return sizes;
}

MemoryReport memory_after_training(World& world, const Options& options, BufferSizes& sizes) {
  auto model = testing_models::model_kinds()[1].make();  // no tied parameters
  auto sharded = shard(*model.module, world, options);
  AdamW optimizer(sharded);
  for (int step = 0; step < 3; ++step) {
    model.loss(world.rank()).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  sizes = buffer_sizes_of(sharded, world.rank());
  return sharded.memory();
}

// The columns of docs/memory.md's table that depend on the strategy.
struct Formula {
  const char* name;
  Options options;
  int64_t full_parameters = 0, full_gradients = 0;
};

// Each step's sums take the place of its gradients.
constexpr int64_t kInPlace = 0;

Options in_groups(Strategy strategy, int shard_group_size) {
  return {.strategy = strategy, .shard_group_size = shard_group_size};
}

std::vector<Formula> formulas_over_gloo(const BufferSizes& sizes, int64_t peers) {
  const int64_t two = 2 * (sizes.largest_gradients + sizes.largest_slice * peers);
  return {{"FullShard", {}, 2 * sizes.largest, two},
          {"ShardGradOp", {.strategy = Strategy::ShardGradOp}, sizes.full, two},
          {"ShardOptimizer", {.strategy = Strategy::ShardOptimizer}, sizes.full, two},
          {"ShardOptimizer of 2", in_groups(Strategy::ShardOptimizer, 2), sizes.full, two},
          {"NoShard", {.strategy = Strategy::NoShard}, 0, two},
          {"HybridShard of 2", in_groups(Strategy::HybridShard, 2), 2 * sizes.largest, two},
          {"HybridShard of 1", in_groups(Strategy::HybridShard, 1), 0, two},
          {"HybridShardGradOp of 2", in_groups(Strategy::HybridShardGradOp, 2), sizes.full, two},
          {"HybridShardGradOp of 1", in_groups(Strategy::HybridShardGradOp, 1), 0, two}};
}

std::vector<Formula> formulas_in_shared_memory(const BufferSizes& sizes) {
  const int64_t two = 2 * sizes.largest_gradients;
  return {{"FullShard", {}, 0, two},
          {"ShardGradOp", {.strategy = Strategy::ShardGradOp}, 0, two},
          {"ShardOptimizer", {.strategy = Strategy::ShardOptimizer}, 0, two},
          {"ShardOptimizer of 2", in_groups(Strategy::ShardOptimizer, 2), 0, two},
          {"NoShard", {.strategy = Strategy::NoShard}, 0, kInPlace},
          {"HybridShard of 2", in_groups(Strategy::HybridShard, 2), 0, two},
          {"HybridShard of 1", in_groups(Strategy::HybridShard, 1), 0, two},
          {"HybridShardGradOp of 2", in_groups(Strategy::HybridShardGradOp, 2), 0, two},
          {"HybridShardGradOp of 1", in_groups(Strategy::HybridShardGradOp, 1), 0, two}};
}

// Units are full in buffers, as over Gloo; gradients are reduced as ever.
std::vector<Formula> formulas_by_copies(const BufferSizes& sizes, int64_t ranks) {
  std::vector<Formula> formulas = formulas_in_shared_memory(sizes);
  const std::vector<Formula> in_buffers = formulas_over_gloo(sizes, ranks - 1);
  for (size_t i = 0; i < formulas.size(); ++i) formulas[i].full_parameters = in_buffers[i].full_parameters;
  return formulas;
}

void expect_formulas(World& world, const std::function<std::vector<Formula>(const BufferSizes&)>& formulas) {
  const size_t count = formulas({}).size();
  for (size_t i = 0; i < count; ++i) {
    BufferSizes sizes;
    const MemoryReport memory = memory_after_training(world, formulas({})[i].options, sizes);
    const Formula expected = formulas(sizes)[i];
    EXPECT_EQ(memory.parameter_bytes, 4 * sizes.shards) << expected.name;
    EXPECT_EQ(memory.gradient_bytes, 4 * sizes.sums) << expected.name;
    EXPECT_EQ(memory.optimizer_bytes, 8 * sizes.pieces) << expected.name;
    EXPECT_EQ(memory.full_parameter_bytes, 4 * expected.full_parameters) << expected.name;
    EXPECT_EQ(memory.full_gradient_bytes, 4 * expected.full_gradients) << expected.name;
    if (const int size = expected.options.shard_group_size; size > 0) {
      EXPECT_EQ(sizes.shards, sizes.full / size) << expected.name;
    }
  }
}

TEST(Memory, FollowsTheFormulaOfEachStrategy) {
  run_ranks(4,
            [](World& world) {
              expect_formulas(world,
                              [&](const BufferSizes& sizes) { return formulas_over_gloo(sizes, world.size() - 1); });
            },
            {.backend = "gloo"});
  run_ranks(4,
            [](World& world) {
              expect_formulas(world, [&](const BufferSizes& sizes) { return formulas_in_shared_memory(sizes); });
            },
            {.backend = "shm"});
  const testing::CopyingGathers copying;
  run_ranks(4,
            [](World& world) {
              expect_formulas(world, [&](const BufferSizes& sizes) { return formulas_by_copies(sizes, world.size()); });
            },
            {.backend = "shm"});
}

TEST(Memory, OfGradientsIsThatOfTheTrainableParameters) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt();
    int64_t trainable = 0;
    for (auto& parameter : model.module->named_parameters()) {
      const bool adapter =
          parameter.key().find("norm") != std::string::npos || parameter.key().find("first") != std::string::npos;
      parameter.value().requires_grad_(adapter);
      if (adapter) trainable += parameter.value().numel();
    }
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    for (int step = 0; step < 2; ++step) {
      model.loss(world.rank()).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    // Each of the eight vectors is padded to 64 elements; the two buffers hold one unit's two of them.
    EXPECT_EQ(trainable, 8 * 32);
    int64_t all = 0;
    for (const torch::Tensor& bytes : world.all_gather(torch::tensor(sharded.memory().gradient_bytes)))
      all += bytes.item<int64_t>();
    EXPECT_EQ(all, 4 * 8 * 64);
    EXPECT_LE(sharded.memory().full_gradient_bytes, 3 * 4 * 2 * (2 * 64));
  });
}

TEST(Strategies, ThatHoldWholeUnitsDoNotCareWhichBlocksARankUses) {
  constexpr int kBlocks = 5, kSteps = 4;
  run_ranks(3, [](World& world) {
    for (Strategy strategy : {Strategy::NoShard, Strategy::ShardOptimizer}) {
      std::vector<NamedUnit> units;
      std::vector<torch::Tensor> weights;
      for (int i = 0; i < kBlocks; ++i) {
        weights.push_back(torch::eye(4).set_requires_grad(true));
        units.push_back({"block" + std::to_string(i), {{"weight" + std::to_string(i), weights[i]}}, {}});
      }
      auto sharded = shard(units, world, {.strategy = strategy});
      AdamW optimizer(sharded, {.lr = 0.1});
      for (int step = 0; step < kSteps; ++step) {
        torch::Tensor x = torch::ones({2, 4});
        // Each rank leaves out a block of its own, and nobody uses the last.
        for (int i = 0; i + 1 < kBlocks; ++i) {
          if (i != (world.rank() + step) % (kBlocks - 1)) x = torch::relu(x.matmul(weights[i]));
        }
        x.sum().backward();
        for (size_t i = 0; i < sharded.parameters().size(); ++i) {
          const torch::Tensor& piece = sharded.parameters()[i].piece;
          EXPECT_EQ(piece.grad().defined(), i + 1 < kBlocks) << i;
        }
        optimizer.step();
        optimizer.zero_grad();
      }
    }
  });
}

TEST(Strategies, KeepTheirCheckpointsOnce) {
  fsdp::testing::ScratchDirectory scratch;
  run_ranks(4, [&](World& world) {
    const Options options{.strategy = Strategy::HybridShard, .shard_group_size = 2};
    auto model = make_gpt(), other = make_gpt();
    auto sharded = shard(*model.module, world, options);
    AdamW optimizer(sharded);
    model.loss(world.rank()).backward();
    optimizer.step();
    optimizer.zero_grad();
    const auto directory = scratch.path() / "step-1";
    save_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer, .step = 1});
    auto loaded = shard(*other.module, world, options);
    AdamW second(loaded);
    EXPECT_EQ(load_checkpoint(directory, {.model = &loaded, .optimizer = &second}), 1);
    const auto expected = testing_models::whole_weights(*model.module, sharded);
    EXPECT_THAT(testing_models::differences(expected, testing_models::whole_weights(*other.module, loaded)), IsEmpty());
    const auto files = std::ranges::count_if(std::filesystem::directory_iterator(directory), [](const auto& entry) {
      return entry.path().extension() == ".safetensors";
    });
    EXPECT_EQ(files, 2);  // one for each shard
  });
}

}  // namespace
}  // namespace fsdp
