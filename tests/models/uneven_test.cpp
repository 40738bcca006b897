// Ranks with different numbers of batches.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <string>
#include <tuple>

#include "engine/strategy_name.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::Job;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::differences;
using testing_models::make_gpt;
using testing_models::TestModel;
using testing_models::Training;
using testing_models::Weights;
using torch::Tensor;

struct Inputs {
  int64_t ranks, steps;
  std::function<bool(int64_t step, int64_t rank)> has_batch;

  int64_t batch(int64_t step, int64_t rank) const { return step * ranks + rank; }
};

// The ranks have so many batches, and then none.
Inputs with_counts(const std::vector<int64_t>& counts) {
  return {static_cast<int64_t>(counts.size()), *std::max_element(counts.begin(), counts.end()),
          [counts](int64_t step, int64_t rank) { return step < counts[rank]; }};
}

Weights train_unsharded(const TestModel& model, const Inputs& inputs, const Training& training) {
  testing_models::Unsharded unsharded(model.module, training);
  for (int64_t step = 0; step < inputs.steps; ++step) {
    for (int64_t rank = 0; rank < inputs.ranks; ++rank) {
      if (inputs.has_batch(step, rank)) unsharded.add([&] { return model.loss(inputs.batch(step, rank)); });
    }
    unsharded.step();
  }
  return unsharded.weights();
}

void train(const TestModel& model, ShardedModel& sharded, World& world, const Inputs& inputs,
           const Training& training) {
  AdamW optimizer(sharded, {.lr = training.lr});
  const auto has_batch = [&](int64_t step) { return step < inputs.steps && inputs.has_batch(step, world.rank()); };
  for (int64_t step = 0; sharded.any_rank_has_batch(has_batch(step)); ++step) {
    if (has_batch(step)) {
      model.loss(inputs.batch(step, world.rank())).backward();
    } else {
      sharded.backward_without_batch();
    }
    sharded.clip_grad_norm_(training.clip);
    optimizer.step();
    optimizer.zero_grad();
  }
}

using Make = std::function<TestModel()>;

// Returns how much the gradient buffers hold.
int64_t expect_same(
    World& world, const Inputs& inputs, const Options& options, const Make& make = [] { return make_gpt(); }) {
  const Training training{.micro_batches = world.size(), .clip = 0.1};
  const TestModel model = make();
  auto sharded = shard(*model.module, world, options);
  train(model, sharded, world, inputs, training);
  const Weights found = testing_models::whole_weights(*model.module, sharded);
  EXPECT_THAT(differences(train_unsharded(make(), inputs, training), found), IsEmpty());
  return sharded.memory().full_gradient_bytes;
}

using StrategyAndBackend = std::tuple<Strategy, std::string>;

class Uneven : public ::testing::TestWithParam<StrategyAndBackend> {
 protected:
  Options options() const { return {.strategy = std::get<0>(GetParam())}; }
  Job job(int64_t ranks) const { return {static_cast<int>(ranks), std::get<1>(GetParam())}; }
};
INSTANTIATE_TEST_SUITE_P(Strategies, Uneven,
                         drawn<StrategyAndBackend>({{Strategy::FullShard, "gloo"}, {Strategy::NoShard, "shm"}},
                                                   {{Strategy::FullShard, "shm"},
                                                    {Strategy::ShardGradOp, "gloo"},
                                                    {Strategy::ShardGradOp, "shm"},
                                                    {Strategy::ShardOptimizer, "gloo"},
                                                    {Strategy::ShardOptimizer, "shm"},
                                                    {Strategy::NoShard, "gloo"}}),
                         [](const auto& info) { return name_of(std::get<0>(info.param)) + std::get<1>(info.param); });

TEST_P(Uneven, TheLastStepsHaveFewerBatches) {
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{5, 3}, {2, 5}, {4, 2, 5}}) {
    run_ranks(job(counts.size()), [&](World& world) { expect_same(world, with_counts(counts), options()); });
  }
}

TEST(UnevenHosts, TheLastStepsHaveFewerBatches) {
  testing::run_on_hosts({}, [](World& world) {
    for (Strategy strategy : {Strategy::FullShard, Strategy::ShardGradOp, Strategy::HybridShard, Strategy::NoShard}) {
      for (const std::vector<int64_t>& counts : {std::vector<int64_t>{4, 3, 0, 5}, {2, 0, 0, 0}})
        expect_same(world, with_counts(counts), {.strategy = strategy});
    }
  });
}

// It has no plan that it could follow.
TEST_P(Uneven, ARankHasNoBatchAtAll) {
  run_ranks(job(2), [&](World& world) { expect_same(world, with_counts({0, 2}), options()); });
  run_ranks(job(3), [&](World& world) { expect_same(world, with_counts({2, 0, 0}), options()); });
}

TEST_P(Uneven, ARankHasItsFirstBatchLater) {
  run_ranks(job(2), [&](World& world) {
    expect_same(world, {2, 4, [](int64_t step, int64_t rank) { return rank == 0 || step > 0; }}, options());
  });
}

// As that of a checkpointed block: the period begins without gradients.
TEST_P(Uneven, AForwardWithoutGradientsComesFirst) {
  const auto make = [] {
    const TestModel model = make_gpt();
    return TestModel{model.module, [loss = model.loss](int64_t b) {
                       {
                         const torch::NoGradGuard no_grad;
                         loss(b);
                       }
                       return loss(b);
                     }};
  };
  run_ranks(job(2), [&](World& world) { expect_same(world, with_counts({5, 3}), options(), make); });
}

TEST_P(Uneven, AccumulationInto16Bits) {
  run_ranks(job(2), [&](World& world) {
    Options narrow = options();
    narrow.mixed_precision.param_dtype = torch::kBFloat16;
    const TestModel model = make_gpt(), whole = make_gpt();
    testing_models::Unsharded unsharded(whole.module,
                                        {.micro_batches = 2, .clip = 0.1, .param_dtype = torch::kBFloat16});
    auto sharded = shard(*model.module, world, narrow);
    AdamW optimizer(sharded, {.lr = Training{}.lr});
    // Rank 1 lacks the second micro-batch of each step.
    for (int64_t step = 0; step < 4; ++step) {
      for (int64_t b = 0; b < 2; ++b) {
        const bool here = b == 0 || world.rank() == 0;
        sharded.any_rank_has_batch(here);
        here ? model.loss(4 * step + 2 * b + world.rank()).backward() : sharded.backward_without_batch();
        for (int64_t rank = 0; rank < 2 - b; ++rank) unsharded.add([&] { return whole.loss(4 * step + 2 * b + rank); });
      }
      sharded.clip_grad_norm_(0.1);
      optimizer.step();
      optimizer.zero_grad();
      unsharded.step();
    }
    EXPECT_THAT(differences(unsharded.weights(), testing_models::whole_weights(*model.module, sharded)), IsEmpty());
  });
}

// The follower's last backward reduced other units than the others reduce now.
TEST_P(Uneven, StepsUseOtherUnits) {
  const auto make = [] {
    torch::manual_seed(4);
    torch::nn::Sequential layers(torch::nn::Linear(8, 8), torch::nn::Linear(8, 8), torch::nn::Linear(8, 8));
    return TestModel{
        layers.ptr(), [layers](int64_t b) mutable {
          const Tensor x = layers->at<torch::nn::LinearImpl>(0).forward(testing_models::values_for(b, {4, 8}));
          return layers->at<torch::nn::LinearImpl>(1 + b / 2 % 2).forward(x.tanh()).pow(2).mean();
        }};
  };
  run_ranks(job(2), [&](World& world) {
    expect_same(world, with_counts({5, 3}), options(), make);
    expect_same(world, with_counts({2, 5}), options(), make);
  });
}

TEST(UnevenHybrid, TheLastStepsHaveFewerBatches) {
  run_ranks(Job{4, "gloo"}, [](World& world) {
    for (Strategy strategy : {Strategy::HybridShard, Strategy::HybridShardGradOp}) {
      expect_same(world, with_counts({3, 1, 2, 4}), {.strategy = strategy, .shard_group_size = 2});
    }
  });
}

// Nothing stalls: the embedding stays open from the beginning of backward to its end.
TEST(UnevenInputs, FollowedStepsTakeNoMoreMemory) {
  run_ranks(Job{2, "gloo"}, [](World& world) {
    const Make make = [] { return make_gpt(6); };
    EXPECT_EQ(expect_same(world, with_counts({4, 2}), {}, make), expect_same(world, with_counts({4, 4}), {}, make));
  });
}

TEST(UnevenInputs, BackwardsWithoutSynchronisationCanBeFollowed) {
  run_ranks(Job{2, "gloo"}, [](World& world) {
    const TestModel model = make_gpt(), whole = make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded, {.lr = 1e-2});
    const Training training{.micro_batches = 2};
    testing_models::Unsharded unsharded(whole.module, training);
    for (int64_t step = 0; step < 3; ++step) {
      const bool here = step == 0 || world.rank() == step % 2;
      {
        const NoSync scope = sharded.no_sync();
        EXPECT_TRUE(sharded.any_rank_has_batch(here));
        here ? model.loss(2 * step + world.rank()).backward() : sharded.backward_without_batch();
      }
      optimizer.step();
      optimizer.zero_grad();
      for (int64_t rank = 0; rank < 2; ++rank) {
        if (step == 0 || rank == step % 2) unsharded.add([&] { return whole.loss(2 * step + rank); });
      }
      unsharded.step();
    }
    EXPECT_THAT(differences(unsharded.weights(), testing_models::whole_weights(*model.module, sharded)), IsEmpty());
  });
}

TEST(UnevenInputs, BatchesCanBeEvenAgain) {
  run_ranks(Job{2, "gloo"}, [](World& world) {
    const TestModel model = make_gpt();
    auto sharded = shard(*model.module, world);
    const auto backward = [&](bool here) {
      EXPECT_TRUE(sharded.any_rank_has_batch(here));
      here ? model.loss(0).backward() : sharded.backward_without_batch();
      sharded.zero_grad();
      return sharded.communication();
    };
    backward(true);
    const auto planned = backward(true), followed = backward(world.rank() == 0), again = backward(true);
    EXPECT_EQ(followed.foreseen_gathers, planned.foreseen_gathers);
    EXPECT_EQ(again.foreseen_gathers - followed.foreseen_gathers, again.gathers - followed.gathers);
    EXPECT_EQ(again.reductions - followed.reductions, followed.reductions - planned.reductions);
  });
}

TEST(UnevenInputs, OnlyARankWithoutABatchFollows) {
  run_ranks(Job{2, "gloo"}, [](World& world) {
    const TestModel model = make_gpt();
    auto sharded = shard(*model.module, world);
    const auto misuse = [&] { return message_of([&] { sharded.backward_without_batch(); }); };
    EXPECT_THAT(misuse(), HasSubstr("Call any_rank_has_batch(false)"));
    EXPECT_TRUE(sharded.any_rank_has_batch(true));
    EXPECT_THAT(misuse(), HasSubstr("Call any_rank_has_batch(false)"));
    EXPECT_FALSE(sharded.any_rank_has_batch(false));
    EXPECT_THAT(misuse(), HasSubstr("Call any_rank_has_batch(false)"));
  });
}

TEST(UnevenInputs, AFollowedStepEndsBeforeTheNext) {
  run_ranks(Job{2, "gloo"}, [](World& world) {
    const TestModel model = make_gpt();
    auto sharded = shard(*model.module, world);
    const bool here = world.rank() == 0;
    sharded.any_rank_has_batch(here);
    here ? model.loss(0).backward() : sharded.backward_without_batch();
    sharded.clip_grad_norm_(1.0);
    const std::string second = here ? "" : message_of([&] { sharded.backward_without_batch(); });
    EXPECT_THAT(second, here ? HasSubstr("") : HasSubstr("Call zero_grad() first"));
  });
}

}  // namespace
}  // namespace fsdp
