// Layers that are divided among ranks, on the tests' devices: two ranks with a device each, and four that share two.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "api/tensor_parallel/parallel_models.h"
#include "device/device.h"
#include "support/drawn.h"
#include "support/run_ranks.h"

namespace fsdp::parallel_models {
namespace {

namespace device = fsdp::testing::device;

struct RanksAndSlices {
  int ranks;
  bool sequence_parallel;

  friend void PrintTo(const RanksAndSlices& one, std::ostream* out) {
    *out << one.ranks << (one.sequence_parallel ? "_with_slices" : "");
  }
};

class TensorParallelOnDevices : public ::testing::TestWithParam<RanksAndSlices> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TensorParallelOnDevices,
                         fsdp::testing::drawn<RanksAndSlices>({{2, true}, {4, false}}, {{2, false}, {4, true}}),
                         ::testing::PrintToStringParamName());

TEST_P(TensorParallelOnDevices, HasTheBitsOfOneProcess) {
  fsdp::testing::run_rank_processes(GetParam().ranks, [](World& world) {
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

// The norm's sum over the axis stays on the device. Parts are no whole blocks, so the last bits may differ from one
// process; ranks have the same.
TEST_P(TensorParallelOnDevices, ClipsByOneNormOnAllRanks) {
  fsdp::testing::run_rank_processes(GetParam().ranks, [](World& world) {
    const TensorParallelOptions options{.parts = 4, .sequence_parallel = GetParam().sequence_parallel};
    World alone = world.split(world.rank());
    const auto norm_over = [&](const World& axis) {
      torch::manual_seed(7);
      DividedModel model(axis, options);
      model.to(world.device());
      ShardedModel sharded = shard(model, alone);
      const auto [input, targets] = batch_of(1);
      model.loss(input.to(world.device()), targets.to(world.device())).backward();
      const torch::Tensor norm = sharded.clip_grad_norm_async_(0.1);
      EXPECT_TRUE(norm.is_cuda());
      EXPECT_NEAR(sharded.clip_grad_norm_(1e9), 0.1, 1e-4);  // clipped by the norm over all parts
      return norm.item<double>();
    };
    const double expected = norm_over(alone);
    device::start_log();
    const double found = norm_over(world);
    device::stop_log();
    EXPECT_THAT(device::missing_waits(), ::testing::IsEmpty());
    EXPECT_NEAR(found, expected, 1e-6 * expected);
    for (const torch::Tensor& other : world.all_gather(torch::tensor(found, torch::kFloat64)))
      EXPECT_EQ(other.item<double>(), found);
  });
}

// Parts of matrices go to the other ranks and back on the device.
TEST_P(TensorParallelOnDevices, MuonHasTheBitsOfOneProcess) {
  fsdp::testing::run_rank_processes(GetParam().ranks, [](World& world) {
    const TensorParallelOptions options{.parts = 4, .sequence_parallel = GetParam().sequence_parallel};
    World alone = world.split(world.rank());
    const auto trained_over = [&](const World& axis) {
      torch::manual_seed(7);
      DividedModel model(axis, options);
      model.to(world.device());
      ShardedModel sharded = shard(model, alone);
      Muon optimizer(sharded, {.lr = 1e-2});
      for (int step = 0; step < 3; ++step) {
        const auto [input, targets] = batch_of(step);
        model.loss(input.to(world.device()), targets.to(world.device())).backward();
        optimizer.step();
        optimizer.zero_grad();
      }
      Values weights;
      for (const auto& [name, value] : sharded.full_state()) weights[name] = value.cpu();
      return std::pair(weights, divisions_of(model));
    };
    const Values expected = trained_over(alone).first;
    device::start_log();
    const auto [found, divisions] = trained_over(world);
    device::stop_log();
    EXPECT_THAT(device::missing_waits(), ::testing::IsEmpty());
    expect_parts(found, expected, divisions);
  });
}

}  // namespace
}  // namespace fsdp::parallel_models
