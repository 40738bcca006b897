// Sums of gradients that take the place of the gradients: in shared memory, where the shard is the whole unit.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "engine/model.h"
#include "support/models.h"
#include "support/oracle.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using ::testing::IsEmpty;
using testing_models::make_gpt;

constexpr double kRate = 1e-2;
constexpr int kRanks = 3;
const Options kReplicas{.strategy = Strategy::NoShard};

// Each step's micro-batches per rank. Those of a step with one are summed in place; the next ones need room of their
// own, and then go on without.
const std::vector<int> kMicroBatches{1, 1, 3, 1, 2, 1};

testing_models::Weights train_alone() {
  const auto model = make_gpt();
  testing_models::Unsharded unsharded(model.module, {.micro_batches = kRanks, .lr = kRate});
  int64_t batch = 0;
  for (int per_rank : kMicroBatches) {
    for (int i = 0; i < per_rank * kRanks; ++i) {
      unsharded.add([&] { return model.loss(batch++); });
    }
    unsharded.step();
  }
  return unsharded.weights();
}

void in_shared_memory(const std::function<void(World&)>& body) { run_ranks(kRanks, body, {.backend = "shm"}); }

TEST(SumsInPlace, HaveTheBitsOfOneProcessForAnyMicroBatches) {
  in_shared_memory([](World& world) {
    const testing_models::Weights expected = train_alone();
    const auto model = make_gpt();
    auto sharded = shard(*model.module, world, kReplicas);
    AdamW optimizer(sharded, {.lr = kRate});
    int64_t batch = 0;
    for (int per_rank : kMicroBatches) {
      for (int i = 0; i < per_rank; ++i, batch += kRanks) model.loss(batch + world.rank()).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    EXPECT_THAT(testing_models::differences(expected, testing_models::whole_weights(*model.module, sharded)),
                IsEmpty());
  });
}

// A step that adds up micro-batches needs the gradients of the next ones beside the sum.
TEST(SumsInPlace, NeedNoBuffersUntilMicroBatchesAreAddedUp) {
  in_shared_memory([](World& world) {
    const auto model = make_gpt();
    auto sharded = shard(*model.module, world, kReplicas);
    int64_t used = 0;
    for (const auto& unit : sharded.model().units()) used += 4 * unit->sum.gradient_layout().full_numel();
    for (int step = 0; step < 2; ++step) {
      model.loss(world.rank()).backward();
      EXPECT_EQ(sharded.memory().gradient_bytes, used);
      EXPECT_EQ(sharded.memory().full_gradient_bytes, 0);
      sharded.zero_grad();
    }
    for (int batch = 0; batch < 2; ++batch) model.loss(world.rank()).backward();
    EXPECT_EQ(sharded.memory().gradient_bytes, used);
    EXPECT_EQ(sharded.memory().full_gradient_bytes, used);
  });
}

TEST(SumsInPlace, LeaveAGradientAloneThatTheUserHolds) {
  in_shared_memory([](World& world) {
    const auto model = make_gpt();
    auto sharded = shard(*model.module, world, kReplicas);
    std::vector<torch::Tensor> held, values;
    model.loss(world.rank()).backward();
    for (const auto& parameter : sharded.parameters()) {
      held.push_back(parameter.piece.grad());
      values.push_back(held.back().clone());
    }
    sharded.zero_grad();
    for (int step = 0; step < 2; ++step) {
      model.loss(10 + world.rank()).backward();
      sharded.zero_grad();
    }
    for (size_t i = 0; i < held.size(); ++i) EXPECT_TRUE(torch::equal(held[i], values[i])) << i;
  });
}

}  // namespace
}  // namespace fsdp
