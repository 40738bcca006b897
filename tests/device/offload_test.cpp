// Offloading on a device: the bits of one process, copies on streams of their own, and no wait that is missing.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <set>

#include "device/device.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp::offload_on_device {
namespace {

namespace device = fsdp::testing::device;
using fsdp::testing::run_ranks;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_models::TestModel;
using testing_models::Training;

struct Seen {
  std::vector<device::Event> events;
  testing_models::Weights weights;
};

Seen train_on_device(const testing_models::ModelKind& kind, World& world, const Training& training,
                     const Options& options) {
  const testing_models::OnDevice on_device(world.device());
  const TestModel model = kind.make();
  model.module->to(world.device());
  ShardedModel sharded = shard(*model.module, world, options);
  device::start_log();
  testing_models::train(model, sharded, world, training);
  device::stop_log();
  Seen seen{.events = device::log(), .weights = testing_models::whole_weights(*model.module, sharded)};
  EXPECT_THAT(device::missing_waits(), IsEmpty());
  for (auto& [name, weight] : seen.weights) weight = weight.cpu();
  return seen;
}

// Of the copies of at least so many bytes between the device and pinned memory.
std::set<std::string> streams_of_copies(const std::vector<device::Event>& events) {
  std::set<std::string> streams;
  for (const device::Event& event : events) {
    if (event.kind == device::Event::Kind::Launch && event.what.find("copy_") != std::string::npos)
      streams.insert(event.stream);
  }
  return streams;
}

void expect_bits(World& world, const Training& training, Options options) {
  if (training.param_dtype) options.mixed_precision.param_dtype = *training.param_dtype;
  for (const auto& kind : testing_models::model_kinds()) {
    SCOPED_TRACE(kind.name);
    if (kind.name == "lstm") continue;  // without cuDNN its cells are no kernels of the CPU
    if (training.param_dtype && kind.name != "gpt") continue;
    const Seen seen = train_on_device(kind, world, training, options);
    EXPECT_GE(streams_of_copies(seen.events).size(), 2u);
    if (world.rank() != 0) continue;
    EXPECT_THAT(testing_models::differences(testing_models::train_unsharded(kind.make(), training), seen.weights),
                IsEmpty());
  }
}

class OffloadOnDevice : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, OffloadOnDevice, ::testing::Values(1, 2));

TEST_P(OffloadOnDevice, OfShardsHasTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    expect_bits(world, {.steps = 3, .micro_batches = 2 * world.size(), .clip = 0.05}, {.cpu_offload = true});
  });
}

TEST_P(OffloadOnDevice, OfShardsInBf16HasTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    Training training{.steps = 3, .micro_batches = 2 * world.size()};
    training.param_dtype = torch::kBFloat16;
    expect_bits(world, training, {.cpu_offload = true});
  });
}

// The CPU updates units while the backward of others goes on.
TEST_P(OffloadOnDevice, OfShardsThatAreSteppedInTheBackwardHasTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    Training training{.steps = 4, .micro_batches = 2 * world.size()};
    training.in_backward_every = 2;
    expect_bits(world, training, {.cpu_offload = true});
  });
}

TEST_P(OffloadOnDevice, OfActivationsHasTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    expect_bits(world, {.steps = 3, .micro_batches = 2 * world.size(), .clip = 0.05},
                {.offload_activations = true, .offload_activations_from = 0});
  });
}

TEST_P(OffloadOnDevice, OfBothHasTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    expect_bits(world, {.steps = 2, .micro_batches = world.size()},
                {.cpu_offload = true, .offload_activations = true, .offload_activations_from = 0});
  });
}

}  // namespace
}  // namespace fsdp::offload_on_device
