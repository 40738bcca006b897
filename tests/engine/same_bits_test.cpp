// N ranks end with the bits of one process, whatever the model and however the micro-batches are divided.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/models.h"
#include "support/oracle.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using ::testing::IsEmpty;
using testing_models::TestModel;
using testing_models::Training;
using testing_models::Weights;

Weights whole_weights(const torch::nn::Module& module, ShardedModel& sharded) {
  FullParameters scope = sharded.full_parameters({.write_back = false});
  Weights weights;
  for (const auto& parameter : module.named_parameters()) {
    weights.emplace_back(parameter.key(), parameter.value().detach().clone());
  }
  scope.close();
  return weights;
}

Weights train_sharded(const TestModel& model, World& world, const Training& training) {
  auto sharded = shard(*model.module, world);
  AdamW optimizer(sharded, {.lr = training.lr});
  sharded.set_gradient_divisor(static_cast<double>(training.micro_batches));
  for (int step = 0; step < training.steps; ++step) {
    for (int64_t b = world.rank(); b < training.micro_batches; b += world.size()) {
      model.loss(step * training.micro_batches + b).backward();
    }
    if (training.clip > 0) sharded.clip_grad_norm_(training.clip);
    optimizer.step();
    optimizer.zero_grad();
  }
  return whole_weights(*model.module, sharded);
}

void expect_same_bits(World& world, const Training& training) {
  for (const auto& kind : testing_models::model_kinds()) {
    const Weights found = train_sharded(kind.make(), world, training);
    if (world.rank() != 0) continue;
    const Weights expected = testing_models::train_unsharded(kind.make(), training);
    EXPECT_THAT(testing_models::differences(expected, found), IsEmpty()) << kind.name;
  }
}

class SameBits : public ::testing::TestWithParam<int> {};

TEST_P(SameBits, OneMicroBatchARank) {
  run_ranks(GetParam(), [](World& world) { expect_same_bits(world, {.micro_batches = world.size()}); });
}

TEST_P(SameBits, WithAccumulationAndClipping) {
  run_ranks(GetParam(),
            [](World& world) { expect_same_bits(world, {.micro_batches = 3 * world.size(), .clip = 0.05}); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SameBits, ::testing::Values(1, 2, 3, 4), ::testing::PrintToStringParamName());

// The same four micro-batches as 1 x 4, 2 x 2 and 4 x 1.
class FourMicroBatches : public ::testing::TestWithParam<int> {};

TEST_P(FourMicroBatches, GiveTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) { expect_same_bits(world, {.micro_batches = 4, .clip = 0.05}); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, FourMicroBatches, ::testing::Values(1, 2, 4), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace fsdp
