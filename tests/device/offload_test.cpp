// Offloading on a device: the bits of one process, copies on streams of their own, and no wait that is missing.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "device/arena.h"
#include "device/device.h"
#include "support/experts.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/train_sharded.h"
#include "support/variable.h"

namespace fsdp::offload_on_device {
namespace {

namespace device = fsdp::testing::device;
using fsdp::testing::run_rank_processes;
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

void expect_bits(const testing_models::ModelKind& kind, World& world, const Training& training,
                 const Options& options) {
  SCOPED_TRACE(kind.name);
  const testing_models::Weights weights = train_on_device(kind, world, training, options);
  if (world.rank() != 0) return;
  EXPECT_THAT(testing_models::differences(testing_models::train_unsharded(kind.make(), training), weights), IsEmpty());
}

void expect_bits(World& world, const Training& training, Options options) {
  if (training.param_dtype) options.mixed_precision.param_dtype = *training.param_dtype;
  for (const auto& kind : testing_models::model_kinds()) {
    if (kind.name == "lstm") continue;  // without cuDNN its cells are no kernels of the CPU
    if (training.param_dtype && kind.name != "gpt") continue;
    expect_bits(kind, world, training, options);
  }
}

class OffloadOnDevice : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, OffloadOnDevice, ::testing::Values(1, 2));

TEST_P(OffloadOnDevice, OfShardsHasTheBitsOfOneProcess) {
  run_rank_processes(GetParam(), [](World& world) {
    expect_bits(world, {.steps = 3, .micro_batches = 2 * world.size(), .clip = 0.05}, {.cpu_offload = true});
  });
}

TEST_P(OffloadOnDevice, OfShardsInBf16HasTheBitsOfOneProcess) {
  run_rank_processes(GetParam(), [](World& world) {
    Training training{.steps = 3, .micro_batches = 2 * world.size()};
    training.param_dtype = torch::kBFloat16;
    expect_bits(world, training, {.cpu_offload = true});
  });
}

// Ranks with a GPU each exchange over NCCL, in whose place Gloo is. A sum of two has one order.
TEST(OffloadOverNccl, OfShardsHasTheBitsOfOneProcess) {
  const testing::Variable devices("FSDP_TEST_DEVICES", "2");
  run_rank_processes(2, [](World& world) {
    for (auto& [name, options] : testing_models::every_strategy(world.size())) {
      SCOPED_TRACE(name);
      options.cpu_offload = true;
      expect_bits(world, {.steps = 3, .micro_batches = 2, .clip = 0.05}, options);
    }
  });
}

TEST(OffloadOverNccl, OfShardsInBf16AndInTheBackwardHasTheBitsOfOneProcess) {
  const testing::Variable devices("FSDP_TEST_DEVICES", "2");
  run_rank_processes(2, [](World& world) {
    Training training{.steps = 4, .micro_batches = 2};
    training.in_backward_every = 2;
    expect_bits(world, training, {.cpu_offload = true});
    training.param_dtype = torch::kBFloat16;
    expect_bits(world, training, {.cpu_offload = true});
  });
}

TEST(OffloadOverNccl, RanksMayUseOtherUnits) {
  const testing::Variable devices("FSDP_TEST_DEVICES", "2");
  run_rank_processes(2, [](World& world) {
    const testing_models::ModelKind experts{"experts", [] { return testing_models::make_experts(); }};
    const Training training{.steps = 5, .micro_batches = 2};
    for (auto& [name, options] : testing_models::every_strategy(world.size())) {
      SCOPED_TRACE(name);
      options.cpu_offload = true;
      expect_bits(experts, world, training, options);
    }
  });
}

// On more ranks the sums have an order of their own, which is that of shards on the device.
TEST(OffloadOverNccl, OfFourRanksHasTheBitsOfShardsOnTheDevice) {
  const testing::Variable devices("FSDP_TEST_DEVICES", "4");
  run_rank_processes(4, [](World& world) {
    const testing_models::ModelKind gpt{"gpt", [] { return testing_models::make_gpt(); }};
    const Training training{.steps = 3, .micro_batches = 8, .clip = 0.05};
    for (auto& [name, options] : testing_models::every_strategy(world.size())) {
      SCOPED_TRACE(name);
      const testing_models::Weights expected = train_on_device(gpt, world, training, options);
      options.cpu_offload = true;
      EXPECT_THAT(testing_models::differences(expected, train_on_device(gpt, world, training, options)), IsEmpty());
    }
  });
}

// The CPU updates units while the backward of others goes on.
TEST_P(OffloadOnDevice, OfShardsThatAreSteppedInTheBackwardHasTheBitsOfOneProcess) {
  run_rank_processes(GetParam(), [](World& world) {
    Training training{.steps = 4, .micro_batches = 2 * world.size()};
    training.in_backward_every = 2;
    expect_bits(world, training, {.cpu_offload = true});
  });
}

TEST_P(OffloadOnDevice, OfActivationsHasTheBitsOfOneProcess) {
  run_rank_processes(GetParam(), [](World& world) {
    expect_bits(world, {.steps = 3, .micro_batches = 2 * world.size(), .clip = 0.05},
                {.offload_activations = true, .offload_activations_from = 0});
  });
}

TEST_P(OffloadOnDevice, OfBothHasTheBitsOfOneProcess) {
  run_rank_processes(GetParam(), [](World& world) {
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
void expect_copies_beside_the_computation(World& world) {
  const auto events = events_of_backward(world, {.cpu_offload = true});
  const auto to_host = streams_of_copies(events, /*to_pinned=*/true);
  const auto to_device = streams_of_copies(events, /*to_pinned=*/false);
  EXPECT_EQ(to_host.size(), 1u);
  EXPECT_EQ(to_device.size(), 1u);
  EXPECT_NE(to_host, to_device);
  EXPECT_THAT(to_host, Each(Not(HasSubstr("default"))));
  EXPECT_THAT(to_device, Each(Not(HasSubstr("default"))));
  EXPECT_THAT(waits_for_the_computation(events), IsEmpty());
}

TEST_P(OffloadOnDevice, CopiesShardsBesideTheComputation) {
  run_rank_processes(GetParam(), [](World& world) { expect_copies_beside_the_computation(world); });
}

// Shards in files are gathered on the host, with sums in rank order. Files of the optimizer's state change nothing.
TEST(OffloadOverNccl, OfShardsInFilesHasTheBitsOfOneProcess) {
  const testing::Variable devices("FSDP_TEST_DEVICES", "2");
  const testing::ScratchDirectory scratch;
  run_rank_processes(2, [&](World& world) {
    Options options{.cpu_offload = true, .offload_directory = scratch.path(), .offload = Offload::All};
    expect_bits(world, {.steps = 2, .micro_batches = 4}, options);
    options.offload = Offload::Optimizer;
    expect_bits(world, {.steps = 2, .micro_batches = 2}, options);
  });
}

TEST(OffloadOverNccl, CopiesShardsBesideTheComputation) {
  const testing::Variable devices("FSDP_TEST_DEVICES", "2");
  run_rank_processes(2, [](World& world) { expect_copies_beside_the_computation(world); });
}

// The host waits for the copies of a forward that no backward follows.
TEST(OffloadOverNccl, WritesShardsBehindTheirCopies) {
  const testing::Variable devices("FSDP_TEST_DEVICES", "2");
  run_rank_processes(2, [](World& world) {
    const testing_models::OnDevice on_device(world.device());
    const TestModel model = testing_models::make_gpt();
    model.module->to(world.device());
    ShardedModel sharded = shard(*model.module, world, {.cpu_offload = true});
    AdamW optimizer(sharded);
    device::start_log();
    model.loss(0).backward();
    {
      const torch::NoGradGuard no_grad;
      model.loss(1);
    }
    optimizer.step();
    device::stop_log();
    EXPECT_THAT(device::missing_waits(), IsEmpty());
  });
}

// A gather copies the own shard alone: half of the unit.
TEST(OffloadOverNccl, CopiesTheOwnShardAlone) {
  const testing::Variable devices("FSDP_TEST_DEVICES", "2");
  run_rank_processes(2, [](World& world) {
    torch::nn::Sequential module(torch::nn::Linear(256, 256), torch::nn::Linear(256, 256));
    module->to(world.device());
    ShardedModel sharded = shard(*module, world, {.units = units_of<torch::nn::LinearImpl>(), .cpu_offload = true});
    device::start_log();
    module->forward(torch::randn({4, 256}).to(world.device())).sum().backward();
    device::stop_log();
    uintptr_t largest = 0;
    for (const device::Event& event : device::log()) {
      for (const device::Range& range : event.reads) {
        if (touches_pinned({range})) largest = std::max(largest, range.end - range.begin);
      }
    }
    const auto unit = static_cast<uintptr_t>(sharded.units()[0].bytes);
    EXPECT_EQ(largest, unit / 2);
  });
}

// The parts of docs/memory.md's table. The device holds full units and gradients alone; of the last exchange of sums
// its part of one unit, until another exchange begins.
TEST(OffloadOverNccl, HoldsShardsAndSumsOnTheHost) {
  const testing::Variable devices("FSDP_TEST_DEVICES", "2");
  run_rank_processes(2, [](World& world) {
    const int64_t all = 4 * 4 * (256 * 256 + 256), unit = all / 4;
    for (auto& [name, options] : testing_models::every_strategy(world.size())) {
      SCOPED_TRACE(name);
      options.units = units_of<torch::nn::LinearImpl>();
      options.cpu_offload = true;
      const int64_t shards = options.strategy == Strategy::NoShard ? 1 : 2;
      const int64_t before = device::allocated_bytes();
      torch::nn::Sequential module;
      for (int i = 0; i < 4; ++i) module->push_back(torch::nn::Linear(256, 256));
      module->to(world.device());
      ShardedModel sharded = shard(*module, world, options);
      AdamW optimizer(sharded);
      for (int step = 0; step < 3; ++step) {
        module->forward(torch::ones({4, 256}).to(world.device())).sum().backward();
        const MemoryReport memory = sharded.memory();
        EXPECT_EQ(memory.parameter_bytes, all / shards);
        EXPECT_EQ(memory.gradient_bytes, all / shards);
        EXPECT_EQ(memory.full_parameter_bytes, options.strategy == Strategy::FullShard ? 2 * unit : all);
        const int64_t held = memory.full_parameter_bytes + memory.full_gradient_bytes;
        if (step > 0) EXPECT_LE(device::allocated_bytes() - before, held + unit + 8192);
        optimizer.step();
        optimizer.zero_grad();
      }
    }
  });
}

TEST_P(OffloadOnDevice, CopiesActivationsBesideTheComputation) {
  run_rank_processes(GetParam(), [](World& world) {
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
