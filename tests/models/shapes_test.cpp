// Parameters of unusual shapes and sizes.
#include <gmock/gmock.h>

#include <limits>
#include <thread>

#include "support/drawn.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"
#include "support/unusual_models.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::run_ranks;
using testing_models::expect_same_bits;
using testing_models::expect_same_bits_with_every_strategy;
using testing_models::TestModel;
using testing_models::values_for;
using torch::Tensor;

class Shapes : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Shapes, drawn<int>({3}, {2, 4}), ::testing::PrintToStringParamName());

// Three layers of 16x15, 7x15 and 16x17 elements, none of which divides evenly.
TestModel make_uneven(std::chrono::milliseconds delay) {
  torch::manual_seed(11);
  torch::nn::Sequential layers(torch::nn::Linear(15, 16), torch::nn::ReLU(), torch::nn::Linear(16, 15),
                               torch::nn::ReLU(), torch::nn::Linear(15, 7), torch::nn::ReLU(), torch::nn::Linear(7, 17),
                               torch::nn::ReLU(), torch::nn::Linear(17, 16));
  return {layers.ptr(), [layers, delay](int64_t b) mutable {
            Tensor result = layers->forward(values_for(b, {4, 15}));
            std::this_thread::sleep_for(delay);
            result.register_hook([delay](const Tensor&) { std::this_thread::sleep_for(delay); });
            return result.pow(2).mean();
          }};
}

TEST_P(Shapes, UnevenLinearsAndARankThatIsLate) {
  run_ranks(GetParam(), [](World& world) {
    for (int late = 0; late < world.size(); ++late) {
      const std::chrono::milliseconds delay(world.rank() == late ? 50 : 0);
      expect_same_bits([&] { return make_uneven(delay); }, world, {.steps = 5, .micro_batches = world.size()},
                       {.units = units_of<torch::nn::LinearImpl>()});
    }
  });
}

TEST_P(Shapes, UnevenLinearsUnderEveryNorm) {
  run_ranks(GetParam(), [](World& world) {
    for (double norm_type : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
      SCOPED_TRACE(norm_type);
      expect_same_bits([&] { return make_uneven({}); }, world,
                       {.steps = 5, .micro_batches = 2 * world.size(), .clip = 0.01, .clip_norm_type = norm_type},
                       {.units = units_of<torch::nn::LinearImpl>()});
    }
  });
}

TEST_P(Shapes, ChannelsLastWeights) {
  run_ranks(GetParam(), [](World& world) {
    expect_same_bits_with_every_strategy(testing_models::make_channels_last, world,
                                         {.steps = 4, .micro_batches = 2 * world.size(), .clip = 0.1});
  });
}

TEST_P(Shapes, ScalarsAndEmptyOnesInUnitsSmallerThanTheWorld) {
  run_ranks(GetParam(), [](World& world) {
    expect_same_bits_with_every_strategy(testing_models::make_small, world,
                                         {.steps = 4, .micro_batches = 2 * world.size(), .clip = 0.1});
  });
}

// Each in its own, without a param_dtype.
TEST_P(Shapes, ParametersOfSeveralDtypesInAModule) {
  run_ranks(GetParam(), [](World& world) {
    expect_same_bits_with_every_strategy(testing_models::make_several_dtypes, world,
                                         {.steps = 4, .micro_batches = 2 * world.size(), .clip = 0.1});
    const TestModel model = testing_models::make_several_dtypes();
    auto sharded = shard(*model.module, world);
    EXPECT_EQ(model.module->named_parameters()["0.norm.weight"].scalar_type(), torch::kFloat32);
    EXPECT_EQ(model.module->named_parameters()["0.linear.weight"].scalar_type(), torch::kBFloat16);
  });
}

}  // namespace
}  // namespace fsdp
