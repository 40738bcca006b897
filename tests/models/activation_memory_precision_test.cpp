// Options::activation_memory in bf16, and on four ranks: no step takes more, and no bit changes.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "models/budgeted_net.h"
#include "support/drawn.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp::activation_budgets {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::Job;
using fsdp::testing::run_ranks;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Not;

// The result of a training with a budget.
struct Outcome {
  ActivationDecision decision;
  int64_t peak_bytes = 0;
  testing_models::Weights weights;
};

// A collective.
Outcome trained_with(int64_t budget, const NetOptions& net, World& world, Options options, const Training& training) {
  options.units = blocks_as_units();
  options.mixed_precision.param_dtype = training.param_dtype;
  options.activation_memory = budget;
  const TestModel model = test_model(net);
  auto sharded = shard(*model.module, world, options);
  testing_models::train(model, sharded, world, training);
  EXPECT_EQ(sharded.communication().late_gradients, 0);
  return {.decision = sharded.activation_decision().value_or(ActivationDecision()),
          .peak_bytes = sharded.memory().peak_activation_bytes,
          .weights = testing_models::whole_weights(*model.module, sharded)};
}

class ActivationBudgetsInSixteenBits : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Of, ActivationBudgetsInSixteenBits,
                         drawn<Job>({{2, "shm"}, {3, "gloo"}}, {{1, "shm"}, {4, "shm"}}),
                         ::testing::PrintToStringParamName());

// Each strategy has plenty and a smaller budget: two of these take turns.
TEST_P(ActivationBudgetsInSixteenBits, AreNeverExceededAndChangeNoBit) {
  run_ranks(GetParam(), [](World& world) {
    int turn = 0;
    const Training training{
        .steps = 3, .micro_batches = 2 * world.size(), .clip = 0.5, .param_dtype = torch::kBFloat16};
    for (const bool llama : {false, true}) {
      const auto expected =
          testing_models::train_unsharded(test_model({.llama = llama, .recomputed = false}), training);
      for (const auto& [strategy, options] : testing_models::every_strategy(world.size())) {
        const auto trained = [&](int64_t budget) {
          SCOPED_TRACE(fmt::format("{}, {}, {} bytes", llama ? "Llama" : "GPT", strategy, budget));
          Outcome found = trained_with(budget, {.llama = llama}, world, options, training);
          EXPECT_LE(found.peak_bytes, budget);
          EXPECT_LE(found.decision.plan.peak_bytes, budget);
          EXPECT_THAT(testing_models::differences(expected, found.weights), IsEmpty());
          return found.decision;
        };
        const ActivationDecision all = trained(kPlenty);
        EXPECT_THAT(all.plan.keep, Each(KeptResults::All));
        const int64_t least = least_of(all), most = all.plan.peak_bytes;
        EXPECT_THAT(trained(++turn % 2 == 0 ? least : (least + most) / 2).plan.keep, Not(Each(KeptResults::All)));
      }
    }
  });
}

// Without a budget, and with blocks that do not run again.
TEST_P(ActivationBudgetsInSixteenBits, LeaveTheBitsOfARunWithoutOne) {
  run_ranks(GetParam(), [](World& world) {
    const Training training{.steps = 3, .micro_batches = world.size(), .param_dtype = torch::kBFloat16};
    for (const bool recomputed : {false, true}) {
      const auto expected = trained_with(0, {.recomputed = recomputed}, world, {}, training);
      const int64_t least = least_of(trained_with(kPlenty, {}, world, {}, training).decision);
      const auto found = trained_with(least, {}, world, {}, training);
      EXPECT_THAT(testing_models::differences(expected.weights, found.weights), IsEmpty()) << recomputed;
    }
  });
}

// A width of 16 bits where fp32 has one of 32: what the blocks would keep is about half.
TEST(ActivationBudgetInSixteenBits, MeasuresFewerBytesThanInFp32) {
  run_ranks(4, [](World& world) {
    const auto measured = [&](std::optional<torch::ScalarType> dtype) {
      const Training training{.steps = 2, .micro_batches = world.size(), .param_dtype = dtype};
      return trained_with(kPlenty, {}, world, {}, training).decision.measured;
    };
    const ActivationTimeline wide = measured(std::nullopt), narrow = measured(torch::kBFloat16);
    ASSERT_EQ(narrow.blocks.size(), wide.blocks.size());
    for (size_t i = 0; i < wide.blocks.size(); ++i) {
      for (const size_t choice : {1, 2}) {
        EXPECT_LT(narrow.blocks[i].choices.at(choice).kept_bytes, wide.blocks[i].choices.at(choice).kept_bytes);
      }
    }
    EXPECT_LT(std::ranges::max(narrow.peaks), std::ranges::max(wide.peaks));
  });
}

}  // namespace
}  // namespace fsdp::activation_budgets
