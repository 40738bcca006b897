// Ranks with different numbers of batches.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::differences;
using testing_models::make_gpt;
using testing_models::TestModel;
using testing_models::Training;
using testing_models::Weights;

using Counts = std::vector<int64_t>;  // of each rank's batches

int64_t batch_of(int64_t step, int64_t rank, size_t ranks) { return step * static_cast<int64_t>(ranks) + rank; }

Weights train_unsharded(const TestModel& model, const Counts& counts, const Training& training) {
  testing_models::Unsharded unsharded(model.module, training);
  const int64_t steps = *std::max_element(counts.begin(), counts.end());
  for (int64_t step = 0; step < steps; ++step) {
    for (size_t rank = 0; rank < counts.size(); ++rank) {
      if (step >= counts[rank]) continue;
      unsharded.add([&] { return model.loss(batch_of(step, static_cast<int64_t>(rank), counts.size())); });
    }
    unsharded.step();
  }
  return unsharded.weights();
}

void train(const TestModel& model, ShardedModel& sharded, World& world, const Counts& counts,
           const Training& training) {
  AdamW optimizer(sharded, {.lr = training.lr});
  for (int64_t step = 0; sharded.any_rank_has_batch(step < counts[world.rank()]); ++step) {
    if (step < counts[world.rank()]) {
      model.loss(batch_of(step, world.rank(), counts.size())).backward();
    } else {
      sharded.backward_without_batch();
    }
    sharded.clip_grad_norm_(training.clip);
    optimizer.step();
    optimizer.zero_grad();
  }
}

void expect_same(World& world, const Counts& counts, const Options& options) {
  const Training training{.micro_batches = world.size(), .clip = 0.1};
  const TestModel model = make_gpt();
  auto sharded = shard(*model.module, world, options);
  train(model, sharded, world, counts, training);
  const Weights found = testing_models::whole_weights(*model.module, sharded);
  const TestModel reference = make_gpt();
  EXPECT_THAT(differences(train_unsharded(reference, counts, training), found), IsEmpty());
}

class Uneven : public ::testing::TestWithParam<Strategy> {};
INSTANTIATE_TEST_SUITE_P(Strategies, Uneven,
                         ::testing::Values(Strategy::FullShard, Strategy::ShardGradOp, Strategy::ShardOptimizer,
                                           Strategy::NoShard));

TEST_P(Uneven, TheLastStepsHaveFewerBatches) {
  for (const Counts& counts : {Counts{5, 3}, Counts{2, 5}, Counts{4, 2, 5}}) {
    run_ranks(static_cast<int>(counts.size()),
              [&](World& world) { expect_same(world, counts, {.strategy = GetParam()}); });
  }
}

// It has no plan that it could repeat.
TEST_P(Uneven, ARankHasNoBatchAtAll) {
  run_ranks(2, [&](World& world) { expect_same(world, {0, 2}, {.strategy = GetParam()}); });
  run_ranks(3, [&](World& world) { expect_same(world, {2, 0, 0}, {.strategy = GetParam()}); });
}

TEST(UnevenHybrid, TheLastStepsHaveFewerBatches) {
  run_ranks(4, [](World& world) {
    for (Strategy strategy : {Strategy::HybridShard, Strategy::HybridShardGradOp}) {
      expect_same(world, {3, 1, 2, 4}, {.strategy = strategy, .shard_group_size = 2});
    }
  });
}

TEST(UnevenInputs, BatchesCanBeEvenAgain) {
  run_ranks(2, [](World& world) {
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
  run_ranks(2, [](World& world) {
    const TestModel model = make_gpt();
    auto sharded = shard(*model.module, world);
    const auto misuse = [&] { return message_of([&] { sharded.backward_without_batch(); }); };
    EXPECT_THAT(misuse(), HasSubstr("Ask any_rank_has_batch(false)"));
    EXPECT_TRUE(sharded.any_rank_has_batch(true));
    EXPECT_THAT(misuse(), HasSubstr("Ask any_rank_has_batch(false)"));
    EXPECT_FALSE(sharded.any_rank_has_batch(false));
    EXPECT_THAT(misuse(), HasSubstr("Ask any_rank_has_batch(false)"));
  });
}

TEST(UnevenInputs, AFollowedStepEndsBeforeTheNext) {
  run_ranks(2, [](World& world) {
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
