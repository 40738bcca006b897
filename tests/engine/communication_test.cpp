// How often a model communicates, what it holds, and that nothing stays full.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "buffers/arena.h"
#include "engine/model.h"
#include "support/models.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using testing_models::make_gpt;

TEST(Communication, IsTheOptimum) {
  run_ranks(2, [](World& world) {
    constexpr int64_t kBlocks = 5;
    auto model = make_gpt(kBlocks);
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    for (int step = 0; step < 4; ++step) {
      const CommunicationReport before = sharded.communication();
      auto loss = model.loss(world.rank());
      const CommunicationReport forward = sharded.communication();
      loss.backward();
      const CommunicationReport after = sharded.communication();
      // The embedding, tied to the head, is gathered at both ends of the forward and still there in the backward.
      EXPECT_EQ(forward.gathers - before.gathers, kBlocks + 2) << "step " << step;
      EXPECT_EQ(after.gathers - forward.gathers, kBlocks - 1) << "step " << step;
      EXPECT_EQ(after.reductions - before.reductions, kBlocks + 1) << "step " << step;
      EXPECT_EQ(after.foreseen_gathers - before.foreseen_gathers, step == 0 ? 0 : 2 * kBlocks + 1) << "step " << step;
      EXPECT_EQ(after.late_gradients, 0);
      optimizer.step();
      optimizer.zero_grad();
    }
  });
}

TEST(Communication, EvaluationBetweenStepsChangesNoWeight) {
  run_ranks(2, [](World& world) {
    auto train = [&](bool evaluate) {
      auto model = make_gpt();
      auto sharded = shard(*model.module, world);
      AdamW optimizer(sharded);
      torch::Tensor evaluation;
      for (int step = 0; step < 3; ++step) {
        if (evaluate) {
          torch::NoGradGuard no_grad;
          for (int batch = 0; batch < 3; ++batch) evaluation = model.loss(100 + batch);
        }
        model.loss(step * 2 + world.rank()).backward();
        optimizer.step();
        optimizer.zero_grad();
      }
      std::vector<torch::Tensor> pieces;
      for (const torch::Tensor& piece : sharded.shards()) pieces.push_back(piece.clone());
      return torch::cat(pieces);
    };
    EXPECT_TRUE(torch::equal(train(false), train(true)));
  });
}

void expect_memory_by_formula(World& world, bool shared) {
  auto model = make_gpt(6, 64);
  auto sharded = shard(*model.module, world);
  AdamW optimizer(sharded);
  int64_t steady = 0;
  for (int step = 0; step < 4; ++step) {
    model.loss(world.rank()).backward();
    optimizer.step();
    optimizer.zero_grad();
    const MemoryReport memory = sharded.memory();
    if (step == 1) steady = memory.total_bytes();
    if (step > 1) {
      EXPECT_EQ(memory.total_bytes(), steady);
    }
  }
  // docs/memory.md
  int64_t S = 0, F = 0, sums = 0, gradients = 0, slices = 0;
  for (const auto& unit : sharded.model().units()) {
    S += unit->layout.shard_numel();
    F = std::max(F, unit->layout.full_numel());
    sums += unit->sum.gradient_layout().shard_of(world.rank()).numel();
    gradients = std::max(gradients, unit->sum.gradient_layout().full_numel());
    slices = std::max(slices, unit->sum.gradient_layout().slice_of(world.rank()).numel());
  }
  EXPECT_LE(sums, S);
  EXPECT_LE(gradients, F);
  constexpr int64_t G = 3;  // the embedding is tied to the head
  const MemoryReport memory = sharded.memory();
  EXPECT_EQ(memory.parameter_bytes, 4 * S);
  EXPECT_EQ(memory.gradient_bytes, 4 * sums);
  EXPECT_EQ(memory.full_parameter_bytes, shared ? 0 : 4 * 2 * F);
  EXPECT_EQ(memory.full_gradient_bytes, 4 * G * (gradients + (shared ? 0 : slices)));
  int64_t numel = 0;
  for (const auto& parameter : sharded.parameters()) numel += parameter.piece.numel();
  EXPECT_EQ(sharded.memory().optimizer_bytes, 2 * numel * 4);
}

TEST(Communication, MemoryIsShardsAndAFixedNumberOfFullUnits) {
  run_ranks(2, [](World& world) { expect_memory_by_formula(world, false); }, {.backend = "gloo"});
  run_ranks(2, [](World& world) { expect_memory_by_formula(world, true); }, {.backend = "shm"});
}

TEST(Communication, AReleasedBufferIsPoisonedSoThatAUseWithoutAGatherShows) {
  if (!buffers::poisons()) GTEST_SKIP() << "this build does not poison";
  buffers::Pool pool(1, 32);
  torch::Tensor buffer = pool.at(0, 8, torch::kFloat32);
  EXPECT_TRUE(buffer.isnan().all().item<bool>());
  buffer.fill_(1);
  pool.release(0);
  EXPECT_TRUE(buffer.isnan().all().item<bool>());
  EXPECT_EQ(pool.at(0, 8, torch::kFloat32).data_ptr(), buffer.data_ptr());
}

// Past every guard: where a parameter's bytes lie now, null while it is not full.
const float* bytes_of(const torch::Tensor& parameter) {
  const void* unit = parameter.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
  return unit == nullptr ? nullptr : static_cast<const float*>(unit) + parameter.storage_offset();
}

// Over gloo: in shared memory such bytes are out of reach (ShmGroup.AReleasedUnitIsOutOfReach).
TEST(Communication, AUnitThatWasReleasedLeavesNaNBehindAndNoBytes) {
  if (!buffers::poisons()) GTEST_SKIP() << "this build does not poison";
  run_ranks(2,
            [](World& world) {
              auto model = make_gpt();
              auto sharded = shard(*model.module, world);
              auto loss = model.loss(world.rank());
              std::vector<std::span<const float>> seen;
              for (const torch::Tensor& parameter : model.module->parameters()) {
                if (const float* bytes = bytes_of(parameter)) seen.emplace_back(bytes, parameter.numel());
              }
              ASSERT_FALSE(seen.empty());
              auto is_nan = [](float value) { return std::isnan(value); };
              for (auto parameter : seen) EXPECT_TRUE(std::none_of(parameter.begin(), parameter.end(), is_nan));
              loss.backward();
              for (auto parameter : seen) EXPECT_TRUE(std::all_of(parameter.begin(), parameter.end(), is_nan));
              for (const torch::Tensor& parameter : model.module->parameters()) EXPECT_EQ(bytes_of(parameter), nullptr);
            },
            {.backend = "gloo"});
}

TEST(Communication, OfAnEvaluationIsOneGatherAUnitOnceItIsPlanned) {
  run_ranks(2, [](World& world) {
    constexpr int64_t kBlocks = 5;
    auto model = make_gpt(kBlocks);
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    auto gathers_of = [&](auto body) {
      const CommunicationReport before = sharded.communication();
      body();
      return sharded.communication().gathers - before.gathers;
    };
    auto train = [&] {
      model.loss(world.rank()).backward();
      optimizer.step();
      optimizer.zero_grad();
    };
    auto evaluate = [&] {
      torch::NoGradGuard no_grad;
      model.loss(7);
    };
    train();
    gathers_of([&] { evaluate(), evaluate(); });
    for (int round = 0; round < 2; ++round) {
      // Training uses the units that an evaluation gathered ahead for its next batch.
      EXPECT_LE(gathers_of(train), 2 * kBlocks + 1) << "round " << round;
      gathers_of(evaluate);
      // The embedding is used at both ends: it is there when the next batch begins.
      EXPECT_EQ(gathers_of(evaluate), kBlocks + 1) << "round " << round;
      EXPECT_EQ(gathers_of(evaluate), kBlocks + 1) << "round " << round;
    }
    EXPECT_EQ(sharded.communication().reductions, 3 * (kBlocks + 1));
  });
}

TEST(Gradients, AParameterThatNoRankUsedIsSkippedAndOneThatSomeUsedIsSummedOverThose) {
  run_ranks(2, [](World& world) {
    auto first = torch::ones({3}, torch::requires_grad()), second = torch::ones({3}, torch::requires_grad()),
         third = torch::ones({3}, torch::requires_grad());
    auto sharded =
        shard(std::vector<NamedUnit>{{"a", {{"first", first}, {"second", second}}, {}}, {"b", {{"third", third}}, {}}},
              world);
    AdamW optimizer(sharded, {.lr = 0.1});
    // A whole unit that rank 0 uses and has no gradient of.
    auto loss = (first * 2).sum() + ((world.rank() == 1 ? third : third.detach()) * 4).sum();
    loss.backward();
    optimizer.step();
    FullParameters scope = sharded.full_parameters();
    EXPECT_NE(first[0].item<float>(), 1);
    EXPECT_EQ(second[0].item<float>(), 1);
    EXPECT_NE(third[0].item<float>(), 1);
    scope.close();
  });
}

TEST(Gradients, ThatOneRankLacksKeepNobodyWaiting) {
  constexpr int kUnits = 6, kSteps = 4;
  run_ranks(2, [](World& world) {
    std::vector<NamedUnit> units;
    std::vector<torch::Tensor> weights, biases;
    for (int i = 0; i < kUnits; ++i) {
      weights.push_back(torch::eye(4).set_requires_grad(true));
      biases.push_back(torch::zeros({4}, torch::requires_grad()));
      units.push_back({"unit" + std::to_string(i),
                       {{"weight" + std::to_string(i), weights[i]}, {"bias" + std::to_string(i), biases[i]}},
                       {}});
    }
    auto sharded = shard(units, world);
    AdamW optimizer(sharded);
    for (int step = 0; step < kSteps; ++step) {
      torch::Tensor x = torch::ones({2, 4});
      for (int i = 0; i < kUnits; ++i) {
        const bool lacks = world.rank() == 0 && i >= kUnits - 2 && step != 2;
        x = torch::relu(x.matmul(weights[i])) + (lacks ? biases[i].detach() : biases[i]);
      }
      x.sum().backward();
      for (const ShardedParameter& parameter : sharded.parameters()) {
        EXPECT_TRUE(parameter.piece.numel() == 0 || parameter.piece.grad().defined()) << parameter.name;
      }
      optimizer.step();
      optimizer.zero_grad();
    }
  });
}

}  // namespace
}  // namespace fsdp
