// N ranks end with the bits of one process, whatever the model and however the micro-batches are divided.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/drawn.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::run_ranks;
using testing_models::Training;

void expect_same_bits(World& world, const Training& training) {
  for (const auto& kind : testing_models::model_kinds()) {
    SCOPED_TRACE(kind.name);
    testing_models::expect_same_bits(kind.make, world, training);
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

INSTANTIATE_TEST_SUITE_P(Ranks, SameBits, drawn<int>({3}, {1, 2, 4}), ::testing::PrintToStringParamName());

// Four micro-batches, as 1 x 4, 2 x 2 and 4 x 1.
class FourMicroBatches : public ::testing::TestWithParam<int> {};

TEST_P(FourMicroBatches, GiveTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) { expect_same_bits(world, {.micro_batches = 4, .clip = 0.05}); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, FourMicroBatches, drawn<int>({2}, {1, 4}), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace fsdp
