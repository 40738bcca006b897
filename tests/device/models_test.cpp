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

TestModel moved(TestModel model, const torch::Device& device) {
  model.module->to(device);
  return model;
}

void expect_bits_of_the_cpu(World& world, const Training& training, const Options& options, bool over_streams) {
  ASSERT_TRUE(world.device().is_cuda());
  for (const auto& kind : testing_models::model_kinds()) {
    SCOPED_TRACE(kind.name);
    testing_models::Weights found;
    {
      const testing_models::OnDevice on_device(world.device());
      const TestModel model = moved(kind.make(), world.device());
      ShardedModel sharded = over_streams ? shard_over([&] { return group_of_streams(world); }, *model.module, world, options)
                                          : shard(*model.module, world, options);
      testing::device::start_log();
      testing_models::train(model, sharded, world, training);
      found = testing_models::whole_weights(*model.module, sharded);
      testing::device::stop_log();
    }
    EXPECT_THAT(testing::device::missing_waits(), IsEmpty());
    if (world.rank() != 0) continue;
    for (auto& [name, weight] : found) weight = weight.cpu();
    EXPECT_THAT(testing_models::differences(testing_models::train_unsharded(kind.make(), training), found), IsEmpty());
  }
}

TEST(ModelOnDevice, OfOneRankHasTheBitsOfTheCpu) {
  run_ranks(1, [](World& world) { expect_bits_of_the_cpu(world, {.steps = 3, .micro_batches = 2, .clip = 0.05}, {}, false); });
}

TEST(ModelOnDevice, OfStagedRanksHasTheBitsOfTheCpu) {
  for (int ranks : {2, 3})
    run_ranks(ranks, [](World& world) {
      expect_bits_of_the_cpu(world, {.steps = 3, .micro_batches = 2 * world.size(), .clip = 0.05}, {}, false);
    });
}

TEST(ModelOnDevice, OverStreamsHasTheBitsOfTheCpu) {
  run_ranks(2, [](World& world) {
    expect_bits_of_the_cpu(world, {.steps = 3, .micro_batches = 2, .clip = 0.05}, {}, true);
  });
}

}  // namespace
}  // namespace fsdp
