// Offloading on a device: the bits of one process, copies on streams of their own, and no wait that is missing.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "device/arena.h"
#include "device/device.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp::offload_on_device {
namespace {

namespace device = fsdp::testing::device;
using fsdp::testing::run_ranks;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_models::TestModel;
using testing_models::Training;

testing_models::Weights train_on_device(const testing_models::ModelKind& kind, World& world, const Training& training,
                                        const Options& options) {
  const testing_models::OnDevice on_device(world.device());
  const TestModel model = kind.make();
  model.module->to(world.device());
  ShardedModel sharded = shard(*model.module, world, options);
  device::start_log();
  testing_models::train(model, sharded, world, training);
  device::stop_log();
  EXPECT_THAT(device::missing_waits(), IsEmpty());
  testing_models::Weights weights = testing_models::whole_weights(*model.module, sharded);
  for (auto& [name, weight] : weights) weight = weight.cpu();
  return weights;
}

void expect_bits(World& world, const Training& training, Options options) {
  if (training.param_dtype) options.mixed_precision.param_dtype = *training.param_dtype;
  for (const auto& kind : testing_models::model_kinds()) {
    SCOPED_TRACE(kind.name);
    if (kind.name == "lstm") continue;  // without cuDNN its cells are no kernels of the CPU
    if (training.param_dtype && kind.name != "gpt") continue;
    const testing_models::Weights weights = train_on_device(kind, world, training, options);
    if (world.rank() != 0) continue;
    EXPECT_THAT(testing_models::differences(testing_models::train_unsharded(kind.make(), training), weights),
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

bool touches_pinned(const std::vector<device::Range>& ranges) {
  return std::ranges::any_of(
      ranges, [](const device::Range& range) { return device::is_pinned(reinterpret_cast<const void*>(range.begin)); });
}

// The streams of the copies from pinned memory, or to it.
std::set<std::string> streams_of_copies(const std::vector<device::Event>& events, bool to_pinned) {
  std::set<std::string> streams;
  for (const device::Event& event : events) {
    if (event.kind != device::Event::Kind::Launch) continue;
    if (touches_pinned(to_pinned ? event.writes : event.reads)) streams.insert(event.stream);
  }
  return streams;
}

std::vector<std::string> waits_for_the_computation(const std::vector<device::Event>& events) {
  std::vector<std::string> waits;
  for (const device::Event& event : events) {
    if (event.kind == device::Event::Kind::HostWait && event.stream.find("default") != std::string::npos)
      waits.push_back(event.what);
  }
  return waits;
}

// Backwards of a model of which each copy is noted. The first step has no plan.
std::vector<device::Event> events_of_backward(World& world, const Options& options) {
  const testing_models::OnDevice on_device(world.device());
  const TestModel model = testing_models::make_gpt();
  model.module->to(world.device());
  ShardedModel sharded = shard(*model.module, world, options);
  AdamW optimizer(sharded);
  for (int step = 0; step < 2; ++step) {
    const torch::Tensor loss = model.loss(step * world.size() + world.rank());
    device::start_log();
    loss.backward();
    device::stop_log();
    optimizer.step();
    optimizer.zero_grad();
  }
  return device::log();
}

// One stream in each direction, and none of them is that of the computation, for which the host does not wait.
TEST_P(OffloadOnDevice, CopiesShardsBesideTheComputation) {
  run_ranks(GetParam(), [](World& world) {
    const auto events = events_of_backward(world, {.cpu_offload = true});
    const auto to_host = streams_of_copies(events, /*to_pinned=*/true);
    const auto to_device = streams_of_copies(events, /*to_pinned=*/false);
    EXPECT_EQ(to_host.size(), 1u);
    EXPECT_EQ(to_device.size(), 1u);
    EXPECT_NE(to_host, to_device);
    EXPECT_THAT(to_host, Each(Not(HasSubstr("default"))));
    EXPECT_THAT(to_device, Each(Not(HasSubstr("default"))));
    EXPECT_THAT(waits_for_the_computation(events), IsEmpty());
  });
}

TEST_P(OffloadOnDevice, CopiesActivationsBesideTheComputation) {
  run_ranks(GetParam(), [](World& world) {
    if (world.size() > 1) return;  // staged ranks wait for copies of their own
    const auto events = events_of_backward(world, {.offload_activations = true, .offload_activations_from = 0});
    const auto to_device = streams_of_copies(events, /*to_pinned=*/false);
    EXPECT_EQ(to_device.size(), 1u);
    EXPECT_THAT(to_device, Each(Not(HasSubstr("default"))));
    EXPECT_EQ(
        std::ranges::count_if(events, [](const auto& event) { return event.kind == device::Event::Kind::HostWait; }),
        0);
  });
}

}  // namespace
}  // namespace fsdp::offload_on_device
