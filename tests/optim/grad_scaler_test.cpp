// A scaled loss trains to the bits of one that is not; an overflow on one rank makes all ranks skip the same step.
#include <gmock/gmock.h>

#include <limits>

#include "optim/training.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::differences;
using testing_models::kMicroBatches;
using testing_models::make_gpt;
using testing_models::run_backward;
using testing_models::run_whole_backward;
using testing_models::TestModel;
using testing_models::weights_of;
using testing_models::whole_weights;
using testing_models::WholeOptimizer;
using testing_models::WholeParameter;

class GradScalerOnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, GradScalerOnRanks, drawn<int>({3}, {1, 2}), ::testing::PrintToStringParamName());

void one_whole_adamw(WholeParameter& parameter) {
  at::_fused_adamw_({parameter.value}, {parameter.value.grad()}, {parameter.states[0]}, {parameter.states[1]}, {},
                    {parameter.steps}, 1e-2, 0.9, 0.999, 1e-2, 1e-8, false, false);
}

// Everything that a step may change on this rank.
std::vector<torch::Tensor> snapshot(const ShardedModel& model, Optimizer& optimizer) {
  std::vector<torch::Tensor> all;
  for (const auto& piece : model.shards()) all.push_back(piece.clone());
  const Optimizer::State state = optimizer.state();
  for (const auto* kind : {&state.elements, &state.scalars}) {
    for (const auto& element : *kind) {
      for (const auto& tensor : element.tensors) all.push_back(tensor.clone());
    }
  }
  return all;
}

bool equal(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto& x, auto& y) { return torch::equal(x, y); });
}

// An overflow of which no other rank's pieces tell.
void overflow_in_own_piece(const ShardedModel& model) {
  for (const auto& piece : model.shards()) {
    if (piece.numel() == 0) continue;
    piece.mutable_grad()[0].fill_(std::numeric_limits<float>::infinity());
    return;
  }
}

TEST_P(GradScalerOnRanks, AnOverflowOnOneRankIsSkippedByAllAndTrainingGoesOnWithTheSameBits) {
  run_ranks(GetParam(), [](World& world) {
    constexpr int kLossOverflows = 2, kPieceOverflows = 4;
    const std::vector<double> scales{1024, 1024, 512, 512, 256, 256, 256, 512};  // after each step
    const bool last = world.rank() == world.size() - 1;
    auto model = make_gpt(), whole = make_gpt();
    auto sharded = shard(*model.module, world);
    sharded.set_gradient_divisor(kMicroBatches);
    AdamW optimizer(sharded, {.lr = 1e-2});
    WholeOptimizer reference(*whole.module, one_whole_adamw);
    GradScaler scaler({.init_scale = 1024, .growth_interval = 3});
    for (int step = 0; step < static_cast<int>(scales.size()); ++step) {
      const bool infinite = step == kLossOverflows && last;
      run_backward(model, step, world, scaler.scale_value() * (infinite ? std::numeric_limits<double>::infinity() : 1));
      if (step == kPieceOverflows && last) overflow_in_own_piece(sharded);
      const bool skipped = step == kLossOverflows || step == kPieceOverflows;
      const auto before = snapshot(sharded, optimizer);
      EXPECT_EQ(scaler.step(optimizer), !skipped) << "step " << step;
      EXPECT_EQ(equal(before, snapshot(sharded, optimizer)), skipped) << "step " << step;
      scaler.update();
      optimizer.zero_grad();
      EXPECT_EQ(scaler.scale_value(), scales[step]) << "step " << step;
      if (skipped) continue;
      run_whole_backward(whole, step);
      reference.step();
    }
    EXPECT_THAT(differences(weights_of(*whole.module), whole_weights(*model.module, sharded)), IsEmpty());
  });
}

// With every strategy.
TEST(GradScalerStrategies, AnOverflowOnOneRankIsSkippedByAll) {
  const auto train = [](World& world, const Options& options) {
    constexpr int kSteps = 3, kOverflow = 1;
    const bool last = world.rank() == world.size() - 1;
    auto model = make_gpt(), whole = make_gpt();
    auto sharded = shard(*model.module, world, options);
    sharded.set_gradient_divisor(kMicroBatches);
    AdamW optimizer(sharded, {.lr = 1e-2});
    WholeOptimizer reference(*whole.module, one_whole_adamw);
    GradScaler scaler({.init_scale = 1024});
    for (int step = 0; step < kSteps; ++step) {
      const bool infinite = step == kOverflow && last;
      run_backward(model, step, world, scaler.scale_value() * (infinite ? std::numeric_limits<double>::infinity() : 1));
      EXPECT_EQ(scaler.step(optimizer), step != kOverflow);
      scaler.update();
      optimizer.zero_grad();
      if (step == kOverflow) continue;
      run_whole_backward(whole, step);
      reference.step();
    }
    EXPECT_THAT(differences(weights_of(*whole.module), whole_weights(*model.module, sharded)), IsEmpty());
  };
  run_ranks(4, [&](World& world) {
    train(world, {.strategy = Strategy::HybridShard, .shard_group_size = 2});
    train(world, {.strategy = Strategy::NoShard});
    train(world, {.strategy = Strategy::ShardOptimizer});
  });
}

TEST_P(GradScalerOnRanks, UnscaledGradientsAreClippedAsThoseOfAPlainLoss) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt(), plain = make_gpt();
    auto sharded = shard(*model.module, world), expected = shard(*plain.module, world);
    SGD optimizer(sharded, {.lr = 0.5}), plain_optimizer(expected, {.lr = 0.5});
    GradScaler scaler;
    for (int64_t b = world.rank(); b < kMicroBatches; b += world.size()) {
      scaler.scale(model.loss(b)).backward();
      plain.loss(b).backward();
    }
    scaler.unscale_(sharded);
    EXPECT_EQ(sharded.clip_grad_norm_(0.5), expected.clip_grad_norm_(0.5));
    EXPECT_TRUE(scaler.step(optimizer));
    plain_optimizer.step();
    EXPECT_TRUE(equal(sharded.shards(), expected.shards()));
  });
}

TEST_P(GradScalerOnRanks, CallsOutOfOrderAreErrors) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    GradScaler scaler;
    EXPECT_THAT(message_of<Error>([&] { scaler.update(); }), HasSubstr("Call step() first"));
    EXPECT_THAT(message_of<Error>([&] { scaler.step(optimizer); }), HasSubstr("Call backward first"));
    run_backward(model, 0, world, scaler.scale_value());
    scaler.unscale_(sharded);
    EXPECT_THAT(message_of<Error>([&] { scaler.unscale_(sharded); }), HasSubstr("expected once a step"));
    EXPECT_TRUE(scaler.step(optimizer));
    EXPECT_THAT(message_of<Error>([&] { scaler.step(optimizer); }), HasSubstr("Call update()"));
    EXPECT_THAT(message_of<Error>([&] { scaler.unscale_(sharded); }), HasSubstr("expected once a step"));
    scaler.update();
    optimizer.zero_grad();
    run_backward(model, 1, world, scaler.scale_value());
    EXPECT_TRUE(scaler.step(optimizer));
  });
}

TEST_P(GradScalerOnRanks, DisabledItStepsOnWhateverComes) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    SGD optimizer(sharded);
    GradScaler scaler({.enabled = false});
    const torch::Tensor loss = model.loss(world.rank());
    EXPECT_TRUE(scaler.scale(loss).is_same(loss));
    (loss * std::numeric_limits<double>::infinity()).backward();
    scaler.unscale_(sharded);
    EXPECT_TRUE(scaler.step(optimizer));
    scaler.update();
    EXPECT_EQ(scaler.scale_value(), 1);
  });
}

TEST(GradScaler, AHalfPrecisionLossHasRoomForTheScale) {
  const torch::Tensor scaled = GradScaler().scale(torch::full({}, 2, torch::kFloat16));
  EXPECT_EQ(scaled.scalar_type(), torch::kFloat32);
  EXPECT_EQ(scaled.item<double>(), 131072);
}

TEST(GradScaler, GoesOnFromASavedState) {
  GradScaler scaler;
  scaler.load_state({.scale = 8, .finite_steps = 5});
  EXPECT_EQ(scaler.scale_value(), 8);
  EXPECT_EQ(scaler.state().finite_steps, 5);
  EXPECT_THAT(message_of<Error>([&] { scaler.load_state({.scale = 0}); }), HasSubstr("scale of 0"));
  EXPECT_EQ(scaler.scale_value(), 8);
}

TEST(GradScaler, ValuesOutOfRangeAreErrorsThatNameThem) {
  auto refused = [](const GradScalerOptions& options) { return message_of<Error>([&] { GradScaler one(options); }); };
  EXPECT_THAT(refused({.init_scale = 0}), HasSubstr("init_scale 0,"));
  EXPECT_THAT(refused({.growth_factor = 1}), HasSubstr("growth_factor 1,"));
  EXPECT_THAT(refused({.backoff_factor = 1}), HasSubstr("backoff_factor 1,"));
  EXPECT_THAT(refused({.growth_interval = 0}), HasSubstr("growth_interval 0,"));
}

}  // namespace
}  // namespace fsdp
