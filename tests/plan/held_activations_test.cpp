#include "plan/held_activations.h"

#include <fsdp/error.h>
#include <gtest/gtest.h>

#include "stages/schedules.h"

namespace fsdp::plan {
namespace {

using namespace fsdp::stages;

// A stage keeps 10 bytes, needs 3 more in a backward, and its graph holds an output of 2.
std::vector<StageBytes> equal_stages(int count) {
  return std::vector<StageBytes>(static_cast<size_t>(count), {.kept = 10, .most = 13, .later = 4, .output = 2});
}

TEST(HeldActivations, AreThoseOfTheMicroBatchesInFlight) {
  const StageSchedule schedule = one_forward_one_backward(4, 1, 8);
  for (int rank = 0; rank < 4; ++rank) {
    const HeldBytes held = most_held(schedule.ranks[static_cast<size_t>(rank)], equal_stages(4));
    EXPECT_EQ(held.activations, 10 * (4 - rank) + 3) << rank;
    EXPECT_EQ(held.outputs, 2 * (4 - rank)) << rank;
  }
  EXPECT_EQ(most_held(all_forward_all_backward(4, 1, 8).ranks[2], equal_stages(4)).activations, 10 * 8 + 3);
  EXPECT_EQ(most_held(one_at_a_time(4, 1, 8).ranks[2], equal_stages(4)).activations, 13);
}

TEST(HeldActivations, OfSeveralStagesAreAddedUp) {
  std::vector<StageBytes> stages = equal_stages(4);
  stages[2] = {.kept = 100, .most = 100};
  const StageSchedule schedule = all_forward_all_backward(2, 2, 3);
  EXPECT_EQ(most_held(schedule.ranks[0], stages).activations, 3 * 10 + 3 * 100);
  EXPECT_EQ(most_held(schedule.ranks[1], stages).activations, 6 * 10 + 3);
}

// Between an input gradient and its weight gradient, what the products need is held.
TEST(HeldActivations, OfLaterProductsAreHeldUntilTheyAreDone) {
  using Kind = StageAction::Kind;
  const std::vector<StageAction> actions = {{Kind::Forward, 0, 0},        {Kind::InputGradient, 0, 0},
                                            {Kind::Forward, 0, 1},        {Kind::InputGradient, 0, 1},
                                            {Kind::WeightGradient, 0, 0}, {Kind::WeightGradient, 0, 1}};
  EXPECT_EQ(most_held(actions, equal_stages(1)).activations, 4 + 13);
  EXPECT_EQ(most_held(actions, {{.kept = 10, .most = 10, .later = 20}}).activations, 20 + 20);
}

TEST(HeldActivations, OfUnknownStagesAreRefused) {
  EXPECT_THROW(most_held(one_at_a_time(2, 1, 1).ranks[1], equal_stages(1)), Error);
}

}  // namespace
}  // namespace fsdp::plan
