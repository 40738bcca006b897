// Options::activation_memory in unusual steps: other sizes, several forwards, retained graphs, validations, no_sync.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "models/budgeted_net.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp::activation_budgets {
namespace {

using fsdp::testing::run_ranks;
using ::testing::Each;

// The largest of any rank decides, for all.
TEST(ActivationBudget, IsForRanksWithBatchesOfDifferentSizes) {
  run_ranks(3, [](World& world) {
    const auto decided = [&](int64_t budget) {
      const auto net = make_net();
      auto sharded = shard(*net, world, {.units = blocks_as_units(), .activation_memory = budget});
      AdamW optimizer(sharded);
      for (int step = 0; step < 3; ++step) {
        loss_of(*net, step, /*rows=*/1 + world.rank()).backward();
        optimizer.step();
        optimizer.zero_grad();
      }
      EXPECT_LE(sharded.memory().peak_activation_bytes, budget);
      return *sharded.activation_decision();
    };
    const ActivationDecision all = decided(kPlenty);
    const ActivationDecision some = decided((least_of(all) + all.plan.peak_bytes) / 2);
    Tensor facts = torch::tensor({some.plan.peak_bytes, least_of(some)}, torch::kInt64);
    for (const KeptResults keep : some.plan.keep)
      facts = torch::cat({facts, torch::tensor({static_cast<int64_t>(keep)})});
    for (const Tensor& theirs : world.all_gather(facts)) EXPECT_TRUE(torch::equal(theirs, facts));
  });
}

TEST(ActivationBudget, KeepsTheInputsAloneOfBlocksWithLargerOnes) {
  run_ranks(1, [](World& world) {
    const auto net = make_net();
    auto sharded = shard(*net, world, {.units = blocks_as_units(), .activation_memory = kPlenty});
    AdamW optimizer(sharded);
    const auto kept = [&](int64_t rows) {
      Tensor loss = loss_of(*net, 0, rows);
      const int64_t bytes = sharded.memory().activation_bytes;
      loss.backward();
      return bytes;
    };
    const int64_t inputs = kept(4);
    {
      const torch::NoGradGuard no_grad;
      loss_of(*net, 0, /*rows=*/32);  // keeps nothing, and so is no measure
    }
    optimizer.step();
    optimizer.zero_grad();
    EXPECT_GT(kept(4), 3 * inputs);
    EXPECT_GT(kept(2), inputs);
    EXPECT_EQ(kept(8), 2 * inputs);
  });
}

// Several forwards before their backwards, graphs that are retained, validations, and sums in no_sync scopes.
TEST(ActivationBudget, HoldsInUnusualSteps) {
  using Backwards = std::function<void(Net & net, ShardedModel & sharded)>;
  const std::vector<std::pair<std::string, Backwards>> steps{
      {"two forwards",
       [](Net& net, ShardedModel&) {
         Tensor first = loss_of(net, 0), second = loss_of(net, 1);
         first.backward();
         second.backward();
       }},
      {"two forwards, one backward", [](Net& net, ShardedModel&) { (loss_of(net, 0) + loss_of(net, 1)).backward(); }},
      {"a retained graph",
       [](Net& net, ShardedModel&) {
         const Tensor loss = loss_of(net, 0);
         loss.backward({}, /*retain_graph=*/true);
         loss.backward();
       }},
      {"one forward, one backward",
       [](Net& net, ShardedModel&) {
         Tensor before = loss_of(net, 0);
         for (const int64_t b : {1, 2, 3}) {
           const Tensor loss = loss_of(net, b);
           before.backward();
           before = loss;
         }
         before.backward();
       }},
      {"a validation",
       [](Net& net, ShardedModel&) {
         loss_of(net, 0).backward();
         const torch::NoGradGuard no_grad;
         loss_of(net, 1);
       }},
      {"no_sync", [](Net& net, ShardedModel& sharded) {
         {
           const NoSync scope = sharded.no_sync();
           loss_of(net, 0).backward();
         }
         loss_of(net, 1).backward();
       }}};
  run_ranks(2, [&](World& world) {
    for (const auto& [name, backwards] : steps) {
      int64_t least = 0, most = 0;
      for (const int64_t part : {-1, 0, 1, 2, 3, 4}) {
        SCOPED_TRACE(fmt::format("{}, {} / 4", name, part));
        const int64_t budget = part < 0 ? kPlenty : least + (most - least) * part / 4;
        const auto net = make_net();
        auto sharded = shard(*net, world, {.units = blocks_as_units(), .activation_memory = budget});
        AdamW optimizer(sharded);
        for (int step = 0; step < 3; ++step) {
          backwards(*net, sharded);
          optimizer.step();
          optimizer.zero_grad();
        }
        EXPECT_LE(sharded.memory().peak_activation_bytes, budget);
        const ActivationDecision decision = sharded.activation_decision().value();
        if (part < 0) {
          least = least_of(decision);
          most = decision.plan.peak_bytes;
          EXPECT_THAT(decision.plan.keep, Each(KeptResults::All));
        }
      }
    }
  });
}

// A block that runs a backward in its forward, over tensors that it saves itself.
struct PenalisedImpl : nn::Module {
  PenalisedImpl() : linear(register_module("linear", nn::Linear(kWidth, kWidth))) {}
  Tensor forward(const Tensor& input) {
    const Tensor result = torch::tanh(linear(input));
    const Tensor slope = torch::autograd::grad({result.sum()}, {input}, {}, /*retain_graph=*/true)[0];
    return result + slope;
  }
  nn::Linear linear;
};

TEST(ActivationBudget, MeasuresBlocksThatRunABackwardThemselves) {
  run_ranks(1, [](World& world) {
    torch::manual_seed(3);
    nn::Sequential net(nn::Linear(3, kWidth), Recomputed<PenalisedImpl>(), Recomputed<PenalisedImpl>());
    auto sharded = shard(*net, world, {.units = units_of<PenalisedImpl>(), .activation_memory = kPlenty});
    AdamW optimizer(sharded);
    for (int step = 0; step < 3; ++step) {
      net->forward(testing_models::values_for(step, {2, 3})).pow(2).mean().backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    EXPECT_THAT(sharded.activation_decision().value().plan.keep, Each(KeptResults::All));
  });
}

// The step has four micro-batches. Two of them are in flight at once.
TEST(ActivationBudget, CountsTheCallsThatAreOpenAtOnce) {
  run_ranks(1, [](World& world) {
    const auto decided = [&](int64_t in_flight) {
      const auto net = make_net();
      auto sharded = shard(*net, world, {.units = blocks_as_units(), .activation_memory = kPlenty});
      AdamW optimizer(sharded);
      std::deque<Tensor> losses;
      for (int64_t b = 0; b < 4; ++b) {
        const MicroBatch scope(sharded, b);
        losses.push_back(loss_of(*net, b));
        if (static_cast<int64_t>(losses.size()) < in_flight) continue;
        const MicroBatch oldest(sharded, b - in_flight + 1);
        losses.front().backward();
        losses.pop_front();
      }
      for (int64_t b = 5 - in_flight; !losses.empty(); ++b, losses.pop_front()) {
        const MicroBatch scope(sharded, b);
        losses.front().backward();
      }
      optimizer.step();
      loss_of(*net, 0);
      return sharded.activation_decision().value();
    };
    const ActivationDecision one = decided(1), two = decided(2);
    ASSERT_EQ(two.measured.blocks.size(), one.measured.blocks.size());
    for (size_t i = 0; i < one.measured.blocks.size(); ++i) {
      for (const size_t choice : {1, 2}) {
        EXPECT_EQ(two.measured.blocks[i].choices[choice].kept_bytes,
                  2 * one.measured.blocks[i].choices[choice].kept_bytes);
      }
    }
  });
}

// Its input is kept before any parameter was used, and so is not counted; what it saves of it later is.
TEST(ActivationBudget, HoldsWhereAModelBeginsWithABlock) {
  run_ranks(1, [](World& world) {
    for (const bool llama : {false, true}) {
      const NetOptions with{.llama = llama, .begins_with_block = true};
      const ActivationDecision all = decision_of(with, world, {.activation_memory = kPlenty}, {.steps = 2});
      for (const int64_t budget : budgets_between(least_of(all), all.plan.peak_bytes)) {
        SCOPED_TRACE(budget);
        const TestModel model = test_model(with);
        auto sharded = shard(*model.module, world, {.units = blocks_as_units(), .activation_memory = budget});
        testing_models::train(model, sharded, world, {.steps = 3});
        EXPECT_LE(sharded.memory().peak_activation_bytes, budget);
      }
    }
  });
}

}  // namespace
}  // namespace fsdp::activation_budgets
