// Options::activation_memory on ranks: no step takes more, and the bits are those of a process without it.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
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

class ActivationBudgets : public ::testing::TestWithParam<Job> {};

// Each strategy has the least budget and another: these take turns.
TEST_P(ActivationBudgets, AreNeverExceededAndChangeNoBit) {
  run_ranks(GetParam(), [](World& world) {
    size_t turn = world.size();
    const Training training{.steps = 3, .micro_batches = 2 * world.size(), .clip = 0.5};
    for (const bool llama : {false, true}) {
      const auto expected =
          testing_models::train_unsharded(test_model({.llama = llama, .recomputed = false}), training);
      for (auto [strategy, options] : testing_models::every_strategy(world.size())) {
        options.activation_memory = kPlenty;
        const ActivationDecision all = decision_of({.llama = llama}, world, options, training);
        EXPECT_THAT(all.plan.keep, Each(KeptResults::All));
        const std::vector<int64_t> budgets = budgets_between(least_of(all), all.plan.peak_bytes);
        for (const int64_t budget : {budgets.front(), budgets[++turn % budgets.size()]}) {
          SCOPED_TRACE(fmt::format("{}, {}, {} bytes", llama ? "Llama" : "GPT", strategy, budget));
          options.units = blocks_as_units();
          options.activation_memory = budget;
          const TestModel model = test_model({.llama = llama});
          auto sharded = shard(*model.module, world, options);
          testing_models::train(model, sharded, world, training);
          EXPECT_LE(sharded.memory().peak_activation_bytes, budget);
          EXPECT_LE(sharded.activation_decision().value().plan.peak_bytes, budget);
          EXPECT_THAT(testing_models::differences(expected, testing_models::whole_weights(*model.module, sharded)),
                      IsEmpty());
          EXPECT_EQ(sharded.communication().late_gradients, 0);
        }
      }
    }
  });
}

// Peaks are foreseen to the byte where blocks share nothing that they save.
TEST_P(ActivationBudgets, AreUsedAsPlanned) {
  run_ranks(GetParam(), [](World& world) {
    const Training training{.steps = 2, .micro_batches = world.size()};
    const ActivationDecision all = decision_of({}, world, {.activation_memory = kPlenty}, training);
    for (const int64_t budget : budgets_between(least_of(all), all.plan.peak_bytes)) {
      SCOPED_TRACE(budget);
      const auto net = make_net();
      auto sharded = shard(*net, world, {.units = blocks_as_units(), .activation_memory = budget});
      AdamW optimizer(sharded);
      for (int step = 0; step < 3; ++step) {
        sharded.reset_peak_memory();
        loss_of(*net, step * world.size() + world.rank()).backward();
        const int64_t planned = step == 0 ? least_of(all) : sharded.activation_decision().value().plan.peak_bytes;
        EXPECT_EQ(sharded.memory().peak_activation_bytes, planned) << "step " << step;
        EXPECT_EQ(sharded.memory().activation_bytes, 0);
        optimizer.step();
        optimizer.zero_grad();
      }
      const ActivationDecision decision = *sharded.activation_decision();
      EXPECT_EQ(decision.measured.peaks, all.measured.peaks);
      EXPECT_EQ(least_of(decision), least_of(all));
      for (const BudgetedBlock& block : decision.measured.blocks) {
        ASSERT_EQ(block.choices.size(), 3u);
        EXPECT_GT(block.choices[0].seconds, 0);
        EXPECT_LE(block.choices[1].seconds, block.choices[0].seconds);
        EXPECT_LT(block.choices[1].kept_bytes, block.choices[2].kept_bytes);
        EXPECT_EQ(block.choices[2].seconds, 0);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Of, ActivationBudgets,
                         drawn<Job>({{2, "shm"}, {3, "gloo"}}, {{1, "shm"}, {3, "shm"}, {2, "gloo"}}),
                         ::testing::PrintToStringParamName());

// A block that runs again uses its layers once more: the order in which units are gathered follows.
TEST(ActivationBudget, HoldsWhereUnitsAreSmallerThanBlocks) {
  run_ranks(Job{2, "gloo"}, [](World& world) {
    const Training training{.steps = 4, .micro_batches = world.size()};
    const auto expected = testing_models::train_unsharded(test_model({.recomputed = false}), training);
    const ActivationDecision all = decision_of({}, world, {.activation_memory = kPlenty}, training);
    for (const int64_t budget : budgets_between(least_of(all), all.plan.peak_bytes)) {
      SCOPED_TRACE(budget);
      const TestModel model = test_model({});
      auto sharded = shard(*model.module, world, {.units = units_of<nn::LinearImpl>(), .activation_memory = budget});
      testing_models::train(model, sharded, world, training);
      EXPECT_LE(sharded.memory().peak_activation_bytes, budget);
      EXPECT_THAT(testing_models::differences(expected, testing_models::whole_weights(*model.module, sharded)),
                  IsEmpty());
    }
  });
}

// A run measures the bytes that `preview_recomputation` tells before.
TEST(ActivationBudget, IsForeseenToTheByte) {
  run_ranks(1, [](World& world) {
    for (const bool llama : {false, true}) {
      const auto net = make_net({.llama = llama});
      const RecomputedStorages storages = preview_recomputation(*net, [&] {
        Tensor loss = loss_of(*net, 0);
        loss.backward();
        return loss;
      });
      const auto sum = [](const std::vector<int64_t>& all) {
        return std::accumulate(all.begin(), all.end(), int64_t{0});
      };
      std::vector<int64_t> peaks(storages.blocks.size() + 1);
      for (const auto& moment : storages.moments) {
        peaks[moment.open_blocks] = std::max(peaks[moment.open_blocks], sum(moment.storages));
      }
      const ActivationDecision measured =
          decision_of({.llama = llama}, world, {.activation_memory = kPlenty}, {.steps = 2});
      ASSERT_EQ(storages.blocks.size(), measured.measured.blocks.size());
      for (size_t i = 0; i < storages.blocks.size(); ++i) {
        const BudgetedBlock& block = measured.measured.blocks[i];
        EXPECT_EQ(storages.blocks[i].name, block.name);
        EXPECT_EQ(sum(storages.blocks[i].products), block.choices[1].kept_bytes);
        EXPECT_EQ(sum(storages.blocks[i].unsaved_products), block.choices[1].backward_bytes);
        EXPECT_EQ(sum(storages.blocks[i].all), block.choices[2].kept_bytes);
      }
      EXPECT_EQ(peaks, measured.measured.peaks);
    }
  });
}

}  // namespace
}  // namespace fsdp::activation_budgets
