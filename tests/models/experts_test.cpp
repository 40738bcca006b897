// Mixtures of experts: each rank's data chooses the parts of a block that run there.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/drawn.h"
#include "support/experts.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"
#include "support/variable.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::Job;
using fsdp::testing::run_ranks;
using testing_models::chosen_experts;
using testing_models::every_strategy;
using testing_models::expect_same_bits;
using testing_models::expect_same_bits_with_every_strategy;
using testing_models::kExpertBlocks;
using testing_models::make_experts;
using testing_models::TestModel;

class Experts : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Experts, drawn<int>({3}, {2, 4}), ::testing::PrintToStringParamName());

TEST_P(Experts, ThatEachRanksDataChoosesHaveTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    for (int64_t accumulation : {1, 2}) {
      expect_same_bits_with_every_strategy(make_experts, world,
                                           {.steps = 6, .micro_batches = accumulation * world.size(), .clip = 0.1});
    }
  });
}

// Shows that ranks in the test above differ.
TEST(ExpertsChosen, OfTheFirstBlockDifferByMicroBatch) {
  EXPECT_NE(chosen_experts(0), chosen_experts(1));
  EXPECT_NE(chosen_experts(0), chosen_experts(2));
}

TEST_P(Experts, AreInTheUnitOfTheirBlock) {
  run_ranks(GetParam(), [](World& world) {
    const TestModel model = make_experts();
    auto sharded = shard(*model.module, world);
    model.loss(world.rank()).backward();
    EXPECT_EQ(sharded.communication().reductions, kExpertBlocks);
    // In the backward the last two are still there, and the first one's input wants no gradient.
    EXPECT_EQ(sharded.communication().gathers, kExpertBlocks);
  });
}

UnitPolicy each_expert() {
  return units_by(
      [](const std::string& name, const torch::nn::Module&) { return name.find(".experts.") != std::string::npos; });
}

// At any time ranks use other units than their peers, and reduce some that these will not use.
void train_with_expert_units(World& world) {
  testing_models::Expected expected(make_experts, {.steps = 6, .micro_batches = 2 * world.size()});
  for (const auto& [strategy, options] : every_strategy(world.size())) {
    SCOPED_TRACE(strategy);
    Options with = options;
    with.units = each_expert();
    with.buffers = 2;
    expect_same_bits(expected, world, with);
  }
}

class ExpertUnits : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ExpertUnits, ::testing::Values(2, 4), ::testing::PrintToStringParamName());

TEST_P(ExpertUnits, InSharedMemoryHoldNoRankUp) {
  EXPECT_GT(each_expert().choose(*make_experts().module).size(), static_cast<size_t>(kExpertBlocks));
  run_ranks(Job{GetParam(), "shm"}, train_with_expert_units);
}

TEST_P(ExpertUnits, ThatAreCopiedIntoTwoBuffersHoldNoRankUp) {
  const testing::CopyingGathers copying;
  run_ranks(Job{GetParam(), "shm"}, train_with_expert_units);
}

TEST_P(ExpertUnits, OverGlooAreGatheredByAllRanks) {
  run_ranks(Job{GetParam(), "gloo"}, [](World& world) {
    testing_models::Expected expected(make_experts, {.steps = 6, .micro_batches = 2 * world.size()});
    for (Options options : {Options{}, Options{.strategy = Strategy::HybridShard, .shard_group_size = 2}}) {
      options.units = each_expert();
      expect_same_bits(expected, world, options);
    }
  });
}

// The numbers of the experts that a micro-batch uses: of six layers, the first and the last are used by all.
using Choose = std::function<std::vector<int>(int64_t step, int64_t micro_batch)>;

enum class Way { Plain, Checkpointed, EvaluatesBefore };

TestModel make_chosen(int64_t micro_batches, const Choose& choose, Way way) {
  torch::manual_seed(6);
  torch::nn::Sequential layers;
  for (int i = 0; i < 6; ++i) layers->push_back(torch::nn::Linear(8, 8));
  auto layer = [layers](int i, const torch::Tensor& x) mutable {
    return torch::tanh(layers->at<torch::nn::LinearImpl>(i).forward(x));
  };
  return {layers.ptr(), [=](int64_t b) mutable {
            const std::vector<int> chosen = choose(b / micro_batches, b % micro_batches);
            auto experts = [=](torch::Tensor x) mutable {
              for (int expert : chosen) x = layer(expert, x);
              return x;
            };
            auto loss = [&] {
              const torch::Tensor x = layer(0, testing_models::values_for(b, {4, 8}));
              return layer(5, way == Way::Checkpointed ? activation_checkpoint(experts, x) : experts(x)).pow(2).mean();
            };
            if (way == Way::EvaluatesBefore) {
              const torch::NoGradGuard no_grad;
              loss();
            }
            return loss();
          }};
}

const std::vector<std::pair<const char*, Choose>>& choices() {
  static const std::vector<std::pair<const char*, Choose>> all{
      {"one each", [](int64_t, int64_t b) { return std::vector<int>{1 + static_cast<int>(b % 4)}; }},
      {"none on some ranks",
       [](int64_t, int64_t b) {
         return b % 2 == 0 ? std::vector<int>{1, 2} : std::vector<int>();
       }},
      {"others in each step",
       [](int64_t step, int64_t b) { return std::vector<int>{1 + static_cast<int>((step + b) % 4)}; }},
      {"at times the same",
       [](int64_t step, int64_t b) { return std::vector<int>{1 + static_cast<int>(step % 3 == 0 ? b % 4 : 0)}; }},
      {"after regular steps", [](int64_t step, int64_t b) { return std::vector<int>{step < 3 || b == 0 ? 1 : 3}; }},
      {"in another order", [](int64_t step, int64_t b) {
         return step == 3 && b == 1 ? std::vector<int>{3, 2, 1} : std::vector<int>{1, 2, 3};
       }}};
  return all;
}

TEST_P(ExpertUnits, OverGlooMayBeChosenInAnyWay) {
  run_ranks(Job{GetParam(), "gloo"}, [](World& world) {
    for (const auto& [name, choose] : choices()) {
      for (Way way : {Way::Plain, Way::Checkpointed, Way::EvaluatesBefore}) {
        SCOPED_TRACE(name + std::string(way == Way::Plain          ? ""
                                        : way == Way::Checkpointed ? ", checkpointed"
                                                                   : ", evaluated"));
        const int64_t micro_batches = world.size();
        const auto make = [&] { return make_chosen(micro_batches, choose, way); };
        Options options{.units = units_of<torch::nn::LinearImpl>()};
        if (world.size() == 4) options.strategy = Strategy::HybridShard, options.shard_group_size = 2;
        expect_same_bits(make, world, {.steps = 6, .micro_batches = micro_batches}, options);
      }
    }
  });
}

// NoShard's units are not gathered; the sums have the same order.
TEST_P(ExpertUnits, OverGlooGoWithBackwardsThatAreNotReduced) {
  run_ranks(Job{GetParam(), "gloo"}, [](World& world) {
    std::vector<testing_models::Weights> found;
    for (Strategy strategy : {Strategy::NoShard, Strategy::FullShard}) {
      const TestModel model = make_chosen(2 * world.size(), choices()[2].second, Way::Plain);
      auto sharded = shard(*model.module, world, {.strategy = strategy, .units = units_of<torch::nn::LinearImpl>()});
      AdamW optimizer(sharded, {.lr = 1e-2});
      for (int64_t step = 0; step < 4; ++step) {
        const int64_t first = (step * world.size() + world.rank()) * 2;
        {
          const auto no_sync = sharded.no_sync();
          model.loss(first).backward();
        }
        model.loss(first + 1).backward();
        optimizer.step();
        optimizer.zero_grad();
      }
      found.push_back(testing_models::whole_weights(*model.module, sharded));
    }
    EXPECT_THAT(testing_models::differences(found[0], found[1]), ::testing::IsEmpty());
  });
}

}  // namespace
}  // namespace fsdp
