// Layers that are divided among ranks, on the tests' devices: two ranks with a device each, and four that share two.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "api/tensor_parallel/parallel_models.h"
#include "device/device.h"
#include "support/run_ranks.h"

namespace fsdp::parallel_models {
namespace {

namespace device = fsdp::testing::device;

struct RanksAndSlices {
  int ranks;
  bool sequence_parallel;

  friend void PrintTo(const RanksAndSlices& one, std::ostream* out) {
    *out << one.ranks << (one.sequence_parallel ? " ranks with slices" : " ranks");
  }
};

class TensorParallelOnDevices : public ::testing::TestWithParam<RanksAndSlices> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TensorParallelOnDevices,
                         ::testing::Values(RanksAndSlices{2, false}, RanksAndSlices{2, true}, RanksAndSlices{4, false},
                                           RanksAndSlices{4, true}));

TEST_P(TensorParallelOnDevices, HasTheBitsOfOneProcess) {
  fsdp::testing::run_ranks(GetParam().ranks, [](World& world) {
    const TensorParallelOptions options{.parts = 4, .sequence_parallel = GetParam().sequence_parallel};
    const auto model_over = [&](const World& axis) {
      torch::manual_seed(7);
      auto model = std::make_shared<DividedModel>(axis, options);
      model->to(world.device());
      return model;
    };
    const auto on_cpu = [](Values values) {
      for (auto& [name, value] : values) value = value.cpu();
      return values;
    };
    const auto divided = model_over(world);
    const auto whole = model_over(world.split(world.rank()));
    const Outcome expected = train(*whole);
    device::start_log();
    const Outcome found = train(*divided);
    device::stop_log();
    EXPECT_THAT(device::missing_waits(), ::testing::IsEmpty());
    EXPECT_TRUE(torch::equal(found.losses.cpu(), expected.losses.cpu()));
    expect_parts(on_cpu(found.gradients), on_cpu(expected.gradients), divisions_of(*divided));
    expect_parts(on_cpu(found.weights), on_cpu(expected.weights), divisions_of(*divided));
  });
}

}  // namespace
}  // namespace fsdp::parallel_models
