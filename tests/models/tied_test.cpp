// Tied weights: within a unit, across units, divided unevenly.
#include "support/tied_models.h"

#include <gtest/gtest.h>

#include "support/drawn.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::run_ranks;
using testing_models::expect_same_bits_with_every_strategy;
using testing_models::make_tied;
using testing_models::StepBegins;
using testing_models::Tied;

constexpr int kTiedSteps = 4;

class Tying : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Tying, drawn<int>({3}, {1, 2, 4}), ::testing::PrintToStringParamName());

TEST_P(Tying, WithinAUnit) {
  run_ranks(GetParam(), [](World& world) {
    expect_same_bits_with_every_strategy([] { return make_tied(Tied::Within); }, world,
                                         {.steps = kTiedSteps, .micro_batches = 2 * world.size()});
  });
}

TEST_P(Tying, AcrossUnits) {
  run_ranks(GetParam(), [](World& world) {
    expect_same_bits_with_every_strategy([] { return make_tied(Tied::Across); }, world,
                                         {.steps = kTiedSteps, .micro_batches = 2 * world.size()});
  });
}

TEST_P(Tying, WhereAStepBeginsWithAView) {
  run_ranks(GetParam(), [](World& world) {
    for (Tied tied : {Tied::Within, Tied::Across}) {
      expect_same_bits_with_every_strategy([tied] { return make_tied(tied, 16, 16, StepBegins::WithView); }, world,
                                           {.steps = kTiedSteps, .micro_batches = 2 * world.size()});
    }
  });
}

// 7 x 15 = 105 elements: 64 on one rank, 41 on the next.
TEST_P(Tying, AcrossUnitsThatAreDividedUnevenly) {
  run_ranks(GetParam(), [](World& world) {
    expect_same_bits_with_every_strategy([] { return make_tied(Tied::Across, 7, 15); }, world,
                                         {.steps = kTiedSteps, .micro_batches = world.size(), .clip = 0.1});
  });
}

}  // namespace
}  // namespace fsdp
