// A module that runs more than once, and graphs that are run backward more than once, or never.
#include "support/repeated_models.h"

#include <gmock/gmock.h>

#include "support/drawn.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::run_ranks;
using testing_models::expect_same_bits;
using testing_models::expect_same_bits_with_every_strategy;
using testing_models::kResidualBlocks;
using testing_models::Residual;
using testing_models::residual_input;
using testing_models::residual_with;
using testing_models::TestModel;
using testing_models::Training;
using torch::Tensor;

constexpr int kRepeatedSteps = 4;

class Repeated : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Repeated, drawn<int>({3}, {2, 4}), ::testing::PrintToStringParamName());

TEST_P(Repeated, AModuleCalledSeveralTimesIsReducedOnce) {
  run_ranks(GetParam(), [](World& world) {
    const Training training{.steps = kRepeatedSteps, .micro_batches = 2 * world.size(), .clip = 0.1};
    testing_models::Expected expected(testing_models::make_called_several_times, training);
    for (const auto& [name, options] : testing_models::every_strategy(world.size())) {
      SCOPED_TRACE(name);
      const auto report = expect_same_bits(expected, world, options);
      EXPECT_EQ(report.reductions, training.steps * 2 * kResidualBlocks);
      EXPECT_EQ(report.late_gradients, 0);
    }
  });
}

TEST_P(Repeated, SeveralForwardsBeforeOneBackward) {
  run_ranks(GetParam(), [](World& world) {
    expect_same_bits_with_every_strategy(testing_models::make_two_forwards, world,
                                         {.steps = kRepeatedSteps, .micro_batches = world.size()});
  });
}

TEST_P(Repeated, AForwardThatIsNeverRunBackward) {
  run_ranks(GetParam(), [](World& world) {
    const int64_t micro_batches = 2 * world.size();
    const auto make = residual_with([&](Residual& net, int64_t b) {
      if (b / micro_batches % 3 == 1) net.forward(residual_input(1000 + b), {1, 2});
      return net.forward(residual_input(b)).pow(2).mean();
    });
    expect_same_bits_with_every_strategy(make, world, {.steps = kRepeatedSteps, .micro_batches = micro_batches});
  });
}

// In each step the whole of the model, then a block of it alone.
TEST_P(Repeated, APartOfTheModelAfterTheWhole) {
  run_ranks(GetParam(), [](World& world) {
    const auto make = residual_with([&](Residual& net, int64_t b) {
      const Tensor input = residual_input(b);
      return (b / world.size() % 2 == 0 ? net.forward(input) : net.layer(1, input)).pow(2).mean();
    });
    expect_same_bits_with_every_strategy(make, world,
                                         {.steps = kRepeatedSteps, .micro_batches = 2 * world.size(), .clip = 0.1});
  });
}

// Each backward counts as a micro-batch: those of all ranks first, then those of all ranks again.
TEST_P(Repeated, TwoBackwardsOfAGraphThatIsRetained) {
  run_ranks(GetParam(), [](World& world) {
    const int64_t ranks = world.size();
    const auto make = residual_with([&](Residual& net, int64_t b) {
      const int64_t step = b / (2 * ranks);
      return net.forward(residual_input(step * ranks + b % ranks)).pow(2).mean();
    });
    const Training training{.steps = kRepeatedSteps, .micro_batches = 2 * ranks};
    const auto expected = testing_models::train_unsharded(make(), training);
    for (const auto& [name, options] : testing_models::every_strategy(world.size())) {
      const TestModel model = make();
      auto sharded = shard(*model.module, world, options);
      AdamW optimizer(sharded, {.lr = training.lr});
      sharded.set_gradient_divisor(static_cast<double>(training.micro_batches));
      for (int step = 0; step < kRepeatedSteps; ++step) {
        const Tensor loss = model.loss(step * 2 * ranks + world.rank());
        loss.backward({}, /*retain_graph=*/true);
        loss.backward();
        optimizer.step();
        optimizer.zero_grad();
      }
      const auto found = testing_models::whole_weights(*model.module, sharded);
      EXPECT_THAT(testing_models::differences(expected, found), ::testing::IsEmpty()) << name;
    }
  });
}

TEST_P(Repeated, AGradientPenalty) {
  run_ranks(GetParam(), [](World& world) {
    expect_same_bits_with_every_strategy(testing_models::make_gradient_penalty, world,
                                         {.steps = kRepeatedSteps, .micro_batches = 2 * world.size(), .clip = 0.5});
  });
}

}  // namespace
}  // namespace fsdp
