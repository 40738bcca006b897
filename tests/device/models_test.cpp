// Sharded models on the tests' device have the bits of one process on the CPU.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "api/shard_over.h"
#include "device/device.h"
#include "device/process_group.h"
#include "support/device_over_gloo.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using ::testing::IsEmpty;
using testing_models::TestModel;
using testing_models::Training;

// Groups whose gathers and reductions are on streams of their own, as with NCCL.
std::unique_ptr<collectives::Group> group_of_streams(World& world) {
  return testing::make_device_group_over_gloo(world, testing::device::make_process_group);
}

TestModel made_on_device(const testing_models::ModelKind& kind, const torch::Device& device) {
  TestModel model = kind.make();
  model.module->to(device);
  return model;
}

void expect_bits_of_one_process(World& world, const Training& training, const Options& options, bool over_streams) {
  ASSERT_TRUE(world.device().is_cuda());
  const testing_models::OnDevice on_device(world.device());
  for (const auto& kind : testing_models::model_kinds()) {
    SCOPED_TRACE(kind.name);
    const TestModel model = made_on_device(kind, world.device());
    ShardedModel sharded = over_streams
                               ? shard_over([&] { return group_of_streams(world); }, *model.module, world, options)
                               : shard(*model.module, world, options);
    testing::device::start_log();
    testing_models::train(model, sharded, world, training);
    const auto found = testing_models::whole_weights(*model.module, sharded);
    testing::device::stop_log();
    EXPECT_THAT(testing::device::missing_waits(), IsEmpty());
    if (world.rank() != 0) continue;
    const auto expected = testing_models::train_unsharded(made_on_device(kind, world.device()), training);
    EXPECT_THAT(testing_models::differences(expected, found), IsEmpty());
  }
}

// The CPU's, but for recurrent layers, which have kernels of their own on a GPU.
TEST(ModelOnDevice, HasTheBitsOfTheCpu) {
  const Training training{.steps = 3, .micro_batches = 2, .clip = 0.05};
  for (const auto& kind : testing_models::model_kinds()) {
    if (kind.name == "lstm") continue;
    SCOPED_TRACE(kind.name);
    const auto expected = testing_models::train_unsharded(kind.make(), training);
    const testing_models::OnDevice on_device(torch::kCUDA);
    const auto found = testing_models::train_unsharded(made_on_device(kind, torch::kCUDA), training);
    EXPECT_THAT(testing_models::differences(expected, found), IsEmpty());
  }
}

TEST(ModelOnDevice, OfOneRankHasTheBitsOfOneProcess) {
  run_ranks(1, [](World& world) {
    expect_bits_of_one_process(world, {.steps = 3, .micro_batches = 2, .clip = 0.05}, {}, false);
  });
}

TEST(ModelOnDevice, OfStagedRanksHasTheBitsOfOneProcess) {
  for (int ranks : {2, 3})
    run_ranks(ranks, [](World& world) {
      expect_bits_of_one_process(world, {.steps = 3, .micro_batches = 2 * world.size(), .clip = 0.05}, {}, false);
    });
}

TEST(ModelOnDevice, OverStreamsHasTheBitsOfOneProcess) {
  run_ranks(2, [](World& world) {
    expect_bits_of_one_process(world, {.steps = 3, .micro_batches = 2, .clip = 0.05}, {}, true);
  });
}

}  // namespace
}  // namespace fsdp
