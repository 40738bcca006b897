// fp16 parameters whose gradients overflow on one rank: all ranks skip that step.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/drawn.h"
#include "support/models.h"
#include "support/oracle.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::run_ranks;
using testing_models::make_gpt;
using testing_models::TestModel;
using testing_models::Training;

constexpr int kOverflowSteps = 4, kOverflow = 1;
constexpr double kScale = 1024;

// A finite factor: it is fp16's range that the gradients leave.
double factor_of(int step, int64_t rank, int64_t ranks) { return step == kOverflow && rank == ranks - 1 ? 1e6 : 1; }

bool finite(const torch::nn::Module& module) {
  for (const auto& parameter : module.parameters()) {
    if (!parameter.grad().isfinite().all().item<bool>()) return false;
  }
  return true;
}

class Overflow : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Overflow, drawn<int>({3}, {2, 4}), ::testing::PrintToStringParamName());

TEST_P(Overflow, IsOfTheLastRankAlone) {
  const TestModel model = make_gpt();
  model.module->to(torch::kHalf);
  for (int rank = 0; rank < GetParam(); ++rank) {
    model.module->zero_grad();
    const torch::Tensor loss = model.loss(kOverflow * GetParam() + rank).to(torch::kFloat32);
    EXPECT_TRUE(loss.isfinite().item<bool>());
    (loss * (kScale * factor_of(kOverflow, rank, GetParam()))).backward();
    EXPECT_EQ(finite(*model.module), rank < GetParam() - 1) << "rank " << rank;
  }
}

testing_models::Weights train_unsharded(int64_t ranks) {
  const TestModel model = make_gpt();
  testing_models::Unsharded unsharded(model.module, {.micro_batches = ranks, .param_dtype = torch::kHalf});
  double scale = kScale;
  for (int step = 0; step < kOverflowSteps; ++step) {
    if (step == kOverflow) {
      scale /= 2;
      continue;
    }
    for (int64_t rank = 0; rank < ranks; ++rank) {
      unsharded.add([&] { return model.loss(step * ranks + rank).to(torch::kFloat32) * scale; });
    }
    unsharded.step(scale);
  }
  return unsharded.weights();
}

TEST_P(Overflow, IsSkippedByAllRanksAndTrainingGoesOnWithTheSameBits) {
  run_ranks(GetParam(), [](World& world) {
    const auto expected = train_unsharded(world.size());
    for (auto [name, options] : testing_models::every_strategy(world.size())) {
      options.mixed_precision.param_dtype = torch::kHalf;
      const TestModel model = make_gpt();
      auto sharded = shard(*model.module, world, options);
      AdamW optimizer(sharded, {.lr = Training{}.lr});
      GradScaler scaler({.init_scale = kScale, .growth_interval = 100});
      for (int step = 0; step < kOverflowSteps; ++step) {
        const torch::Tensor loss = model.loss(step * world.size() + world.rank());
        (scaler.scale(loss) * factor_of(step, world.rank(), world.size())).backward();
        EXPECT_EQ(scaler.step(optimizer), step != kOverflow) << name << ", step " << step;
        scaler.update();
        optimizer.zero_grad();
      }
      EXPECT_EQ(scaler.scale_value(), kScale / 2) << name;
      const auto found = testing_models::whole_weights(*model.module, sharded);
      EXPECT_THAT(testing_models::differences(expected, found), ::testing::IsEmpty()) << name;
    }
  });
}

}  // namespace
}  // namespace fsdp
