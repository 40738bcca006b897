// Accumulation inside no_sync: gradients stay with their rank until one reduction per step, in an order of its own.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/drawn.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/oracle.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::make_gpt;
using testing_models::TestModel;
using testing_models::Weights;

constexpr int kAccumulatedSteps = 2, kBatches = 3;
constexpr double kRate = 1e-2;

// Each rank's micro-batches are added first, in order, then the ranks' sums, in order.
Weights train_by_that_order(const TestModel& model, int ranks, double clip) {
  testing_models::Unsharded unsharded(model.module, {.micro_batches = ranks, .clip = clip, .lr = kRate});
  for (int step = 0; step < kAccumulatedSteps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto loss = [&](int b) { return model.loss((step * kBatches + b) * ranks + rank); };
      unsharded.add([&] {
        for (int b = 0; b < kBatches - 1; ++b) loss(b).backward();  // LibTorch's own accumulation is that of one rank
        return loss(kBatches - 1);
      });
    }
    unsharded.step();
  }
  return unsharded.weights();
}

struct Trained {
  Weights weights;
  int64_t reductions = 0;
};

Trained train(World& world, const Options& options, double clip, bool last_outside) {
  const auto model = make_gpt();
  auto sharded = shard(*model.module, world, options);
  AdamW optimizer(sharded, {.lr = kRate});
  for (int step = 0; step < kAccumulatedSteps; ++step) {
    auto backward = [&](int b) { model.loss((step * kBatches + b) * world.size() + world.rank()).backward(); };
    {
      const NoSync scope = sharded.no_sync();
      for (int b = 0; b < kBatches - last_outside; ++b) backward(b);
    }
    if (last_outside) backward(kBatches - 1);
    if (clip > 0) sharded.clip_grad_norm_(clip);
    optimizer.step();
    optimizer.zero_grad();
  }
  return {testing_models::whole_weights(*model.module, sharded), sharded.communication().reductions};
}

class NoSyncOnRanks : public ::testing::TestWithParam<int> {};

TEST_P(NoSyncOnRanks, AddsInItsOwnOrderAndReducesOnceAStep) {
  run_ranks(GetParam(), [](World& world) {
    for (double clip : {0.0, 0.05}) {
      const Weights expected = train_by_that_order(make_gpt(), world.size(), clip);
      for (const auto& [name, options] : testing_models::every_strategy(world.size())) {
        for (bool last_outside : {true, false}) {
          const Trained run = train(world, options, clip, last_outside);
          EXPECT_THAT(testing_models::differences(expected, run.weights), IsEmpty())
              << name << ", clipped to " << clip << ", last outside " << last_outside;
          EXPECT_EQ(run.reductions, kAccumulatedSteps * 4) << name;  // units
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, NoSyncOnRanks, drawn<int>({3}, {1, 2, 4}), ::testing::PrintToStringParamName());

// An optimizer of LibTorch's skips a piece that has no gradient.
Weights train_with_torch_optim(World& world, const Options& options, bool clips) {
  const auto model = make_gpt();
  auto sharded = shard(*model.module, world, options);
  torch::optim::AdamW optimizer(sharded.shards(), torch::optim::AdamWOptions(kRate));
  for (int step = 0; step < kAccumulatedSteps; ++step) {
    {
      const NoSync scope = sharded.no_sync();
      for (int b = 0; b < kBatches; ++b) {
        model.loss((step * kBatches + b) * world.size() + world.rank()).backward();
      }
    }
    if (clips) sharded.clip_grad_norm_(1e9);  // reduces, and scales nothing
    optimizer.step();
    optimizer.zero_grad();
  }
  return testing_models::whole_weights(*model.module, sharded);
}

TEST_P(NoSyncOnRanks, AStepOfLibTorchsOptimizersReduces) {
  for (const char* backend : {"auto", "gloo"}) {
    run_ranks(GetParam(),
              [](World& world) {
                const auto model = make_gpt();
                auto before = shard(*model.module, world);
                for (const auto& [name, options] : testing_models::every_strategy(world.size())) {
                  const Weights clipped = train_with_torch_optim(world, options, true);
                  const Weights plain = train_with_torch_optim(world, options, false);
                  EXPECT_THAT(testing_models::differences(clipped, plain), IsEmpty()) << name;
                  EXPECT_FALSE(
                      testing_models::differences(testing_models::whole_weights(*model.module, before), plain).empty());
                }
              },
              {.backend = backend});
  }
}

// Each rank's backwards leave 2 for each element of the first parameter, and outside of the scope 3 for the second.
TEST_P(NoSyncOnRanks, AParameterThatOnlyTheScopeUsesIsSteppedBeforeAndAfterTheOtherBackward) {
  run_ranks(GetParam(), [](World& world) {
    for (const auto& [name, options] : testing_models::every_strategy(world.size())) {
      for (const bool scope_first : {true, false}) {
        auto first = torch::ones({65}, torch::requires_grad()), second = torch::ones({65}, torch::requires_grad());
        auto sharded = shard(std::vector<NamedUnit>{{"a", {{"first", first}}, {}}, {"b", {{"second", second}}, {}}},
                             world, options);
        torch::optim::SGD optimizer(sharded.shards(), 1.0);
        const auto in_scope = [&] {
          const NoSync scope = sharded.no_sync();
          (first * 2).sum().backward();
        };
        for (int step = 0; step < 2; ++step) {
          if (scope_first) in_scope();
          (second * 3).sum().backward();
          if (!scope_first) in_scope();
          optimizer.step();
          optimizer.zero_grad();
        }
        const NamedTensors state = sharded.full_state();
        EXPECT_TRUE(torch::equal(state[0].second, torch::full({65}, 1.0 - 2 * 2))) << name << scope_first;
        EXPECT_TRUE(torch::equal(state[1].second, torch::full({65}, 1.0 - 2 * 3))) << name << scope_first;
      }
    }
  });
}

TEST(NoSync, AnotherOptimizersZeroGradForgetsWhatWasNotReduced) {
  run_ranks(2, [](World& world) {
    auto weight = torch::ones({65}, torch::requires_grad());
    auto sharded = shard(std::vector<NamedUnit>{{"a", {{"weight", weight}}, {}}}, world);
    torch::optim::SGD optimizer(sharded.shards(), 1.0);
    {
      const NoSync scope = sharded.no_sync();
      (weight * 5).sum().backward();
    }
    optimizer.zero_grad();
    (weight * 2).sum().backward();
    optimizer.step();
    EXPECT_TRUE(torch::equal(sharded.full_state()[0].second, torch::full({65}, -1.0)));
  });
}

TEST(NoSync, AGradientThatIsReadInsideIsAnErrorUnlessAHookReadsIt) {
  run_ranks(2, [](World& world) {
    auto weight = torch::ones({65}, torch::requires_grad());
    auto sharded = shard(std::vector<NamedUnit>{{"a", {{"weight", weight}}, {}}}, world);
    const torch::Tensor piece = sharded.shards()[0];
    NoSync scope = sharded.no_sync();
    (weight * 2).sum().backward();
    EXPECT_THAT(message_of([&] { piece.grad(); }), HasSubstr("inside no_sync()"));
    EXPECT_THAT(message_of([&] { piece.mutable_grad(); }), HasSubstr("inside no_sync()"));
    torch::Tensor product = weight * 2;
    product.register_hook([&](const torch::Tensor&) { EXPECT_FALSE(piece.grad().defined()); });
    product.sum().backward();
    { const NoSync ended = std::move(scope); }
    EXPECT_TRUE(piece.grad().defined());
    EXPECT_TRUE(torch::equal(piece.grad().clone(), torch::full({piece.numel()}, 4.0)));
  });
}

TEST(NoSync, ZeroGradForgetsWhatWasNotReduced) {
  run_ranks(2, [](World& world) {
    auto train = [&](bool forget) {
      auto model = make_gpt();
      auto sharded = shard(*model.module, world);
      AdamW optimizer(sharded);
      if (forget) {
        const NoSync scope = sharded.no_sync();
        model.loss(5).backward();
        sharded.zero_grad();
      }
      model.loss(world.rank()).backward();
      optimizer.step();
      return testing_models::whole_weights(*model.module, sharded);
    };
    EXPECT_THAT(testing_models::differences(train(false), train(true)), IsEmpty());
  });
}

// The reductions of such a step say nothing of how a backward goes on.
TEST(NoSync, StepsOfItAloneLeaveThePlanOfOthers) {
  run_ranks(2, [](World& world) {
    const TestModel model = make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    const auto step = [&] {
      const CommunicationReport before = sharded.communication();
      model.loss(world.rank()).backward();
      optimizer.step();
      optimizer.zero_grad();
      return sharded.communication().reductions - before.reductions;
    };
    step();
    const int64_t reductions = step();
    {
      const NoSync scope = sharded.no_sync();
      model.loss(world.rank()).backward();
      EXPECT_THAT(message_of([&] { optimizer.step(); }), HasSubstr("inside no_sync()"));
    }
    optimizer.step();
    optimizer.zero_grad();
    EXPECT_EQ(step(), reductions);
    EXPECT_EQ(sharded.communication().late_gradients, 0);
  });
}

TEST(NoSync, ReducesGradientsThatOneRankAloneHas) {
  run_ranks(2, [](World& world) {
    auto first = torch::ones({3}, torch::requires_grad()), second = torch::ones({3}, torch::requires_grad());
    auto sharded = shard(std::vector<NamedUnit>{{"a", {{"first", first}}, {}}, {"b", {{"second", second}}, {}}}, world,
                         {.strategy = Strategy::NoShard});
    {
      const NoSync scope = sharded.no_sync();
      ((world.rank() == 0 ? first : second) * 2).sum().backward();
    }
    first.sum().backward();
    EXPECT_TRUE(torch::equal(sharded.shards()[0].grad().clone(), torch::full({3}, 2.0)));  // (2 + 1 + 1) / 2
    EXPECT_TRUE(torch::equal(sharded.shards()[1].grad().clone(), torch::full({3}, 1.0)));
  });
}

}  // namespace
}  // namespace fsdp
