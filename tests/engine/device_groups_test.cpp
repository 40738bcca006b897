// Sharded models over the groups that serve GPUs, with the CPU in the device's place: the whole way of a step but for
// the device's own streams.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <unordered_set>

#include "collectives/backends.h"
#include "engine/model.h"
#include "support/device_over_gloo.h"
#include "support/experts.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"
#include "world/state.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using ::testing::IsEmpty;
using testing_models::TestModel;
using testing_models::Training;

// A unit for each child that has parameters of its own.
std::vector<engine::UnitSpec> unit_specs_of(const torch::nn::Module& module) {
  std::unordered_set<const at::TensorImpl*> seen;
  std::vector<engine::UnitSpec> units;
  const auto add = [&](const std::string& name, const torch::OrderedDict<std::string, torch::Tensor>& parameters) {
    NamedUnit unit{name, {}, {}};
    for (const auto& parameter : parameters) {
      if (seen.insert(parameter.value().unsafeGetTensorImpl()).second)
        unit.parameters.emplace_back(name + "." + parameter.key(), parameter.value());
    }
    if (!unit.parameters.empty()) units.push_back({std::move(unit)});
  };
  for (const auto& child : module.named_modules("", /*include_self=*/false)) {
    if (child.value()->children().empty()) add(child.key(), child.value()->named_parameters());
  }
  add("rest", module.named_parameters());
  return units;
}

using MakeGroup = std::unique_ptr<collectives::Group> (*)(World& world);

std::unique_ptr<collectives::Group> staged_over_shm(World& world) {
  return collectives::make_staged_group(world.state()->new_group(), torch::kCPU);
}

// `shards` ranks share a copy of the state.
void expect_same_bits(World& world, MakeGroup make_group, int shards, const Training& training,
                      const std::shared_ptr<memory::ByteStore>& activations = {}) {
  for (const auto& kind : testing_models::model_kinds()) {
    SCOPED_TRACE(kind.name);
    const TestModel model = kind.make();
    engine::ModelSpec spec{.units = unit_specs_of(*model.module), .group = make_group(world), .shards = shards};
    spec.activation_store = activations;
    if (shards == 1) spec.full_until = schedule::FullUntil::ShardsChange;
    ShardedModel sharded(std::make_shared<engine::Model>(std::move(spec)));
    testing_models::train(model, sharded, world, training);
    EXPECT_EQ(sharded.memory().peak_offloaded_activation_bytes > 0, activations != nullptr);
    const auto found = testing_models::whole_weights(*model.module, sharded);
    if (world.rank() == 0) {
      EXPECT_THAT(testing_models::differences(testing_models::train_unsharded(kind.make(), training), found),
                  IsEmpty());
    }
  }
}

std::unique_ptr<collectives::Group> host_shards_over_its_own(World& world) {
  return collectives::make_host_shard_group(world.state()->new_group(), torch::kCPU);
}

class StagedModel : public ::testing::TestWithParam<int> {};

TEST_P(StagedModel, HasTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    for (int shards : {1, world.size()})
      expect_same_bits(world, staged_over_shm, shards, {.steps = 4, .micro_batches = 2 * world.size(), .clip = 0.05});
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, StagedModel, ::testing::Values(2, 4));

// Options::cpu_offload.
class HostShardModel : public ::testing::TestWithParam<testing::Job> {};

TEST_P(HostShardModel, HasTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    std::vector<int> shards{world.size()};
    if (world.size() > 1) shards.push_back(1);
    for (int count : shards) {
      expect_same_bits(world, host_shards_over_its_own, count,
                       {.steps = 4, .micro_batches = 2 * world.size(), .clip = 0.05});
    }
  });
}

// Full units are copies, of which there are as many as buffers; with plain groups of these kinds there are none.
TEST_P(HostShardModel, HoldsFullUnitsInBuffersOfTheDevice) {
  run_ranks(GetParam(), [](World& world) {
    const TestModel model = testing_models::make_gpt();
    engine::ModelSpec spec{
        .units = unit_specs_of(*model.module), .group = host_shards_over_its_own(world), .shards = world.size()};
    ShardedModel sharded(std::make_shared<engine::Model>(std::move(spec)));
    model.loss(world.rank()).backward();
    int64_t largest = 0;
    for (const UnitSummary& unit : sharded.units()) largest = std::max(largest, unit.bytes);
    EXPECT_GE(sharded.memory().full_parameter_bytes, 2 * largest);
  });
}

INSTANTIATE_TEST_SUITE_P(Jobs, HostShardModel,
                         ::testing::Values(testing::Job{1}, testing::Job{2, "shm"}, testing::Job{2, "gloo"},
                                           testing::Job{4, "shm"}),
                         ::testing::PrintToStringParamName());

// Options::offload_activations of ranks on GPUs.
TEST(ActivationsOnTheHost, HaveTheBitsOfOneProcess) {
  run_ranks(2, [](World& world) {
    for (const MakeGroup make_group : {staged_over_shm, host_shards_over_its_own}) {
      expect_same_bits(world, make_group, world.size(), {.steps = 4, .micro_batches = 4, .clip = 0.05},
                       memory::host_store());
    }
  });
}

#ifdef FSDP_WITH_GLOO
// Each rank uses other experts, each of which is a unit. On more than two ranks the sums have an order of their own.
TEST(DeviceModel, RanksMayUseOtherUnits) {
  for (int ranks : {2, 4}) {
    run_ranks(ranks, [](World& world) {
      for (int shards : {1, 2, world.size()}) {
        SCOPED_TRACE(shards);
        const Training training{.steps = 5, .micro_batches = world.size()};
        const TestModel model = testing_models::make_experts();
        engine::ModelSpec spec{.units = unit_specs_of(*model.module),
                               .group = testing::make_device_group_over_gloo(world),
                               .shards = shards};
        ShardedModel sharded(std::make_shared<engine::Model>(std::move(spec)));
        testing_models::train(model, sharded, world, training);
        const auto found = testing_models::whole_weights(*model.module, sharded);
        const auto expected = testing_models::train_unsharded(testing_models::make_experts(), training);
        if (world.size() == 2) EXPECT_THAT(testing_models::differences(expected, found), IsEmpty());
        for (size_t i = 0; i < found.size(); ++i)
          EXPECT_TRUE(found[i].second.allclose(expected[i].second, 1e-3, 1e-4)) << found[i].first;
      }
    });
  }
}

// The columns of docs/memory.md's table that depend on the strategy.
struct MemoryOfStrategy {
  const char* name;
  schedule::FullUntil full_until;
  int shards;
  int64_t full_parameters, full_gradients;
};

// `buffers`: for gradients, G there.
std::vector<MemoryOfStrategy> formulas(const engine::Units& units, int ranks, int64_t buffers) {
  int64_t full = 0, largest = 0, gradients = 0, largest_gradients = 0;
  for (const auto& unit : units) {
    full += unit->layout.full_numel();
    largest = std::max(largest, unit->layout.full_numel());
    gradients += unit->sum.gradient_layout().full_numel();
    largest_gradients = std::max(largest_gradients, unit->sum.gradient_layout().full_numel());
  }
  using enum schedule::FullUntil;
  const int64_t few = buffers * largest_gradients, half = full / 2;  // the shard of each of two ranks
  std::vector<MemoryOfStrategy> all{{"FullShard", BufferNeeded, ranks, 2 * largest, few},
                                    {"ShardGradOp", EndOfBackward, ranks, full, few},
                                    {"ShardOptimizer", ShardsChange, ranks, full, gradients},
                                    {"NoShard", ShardsChange, 1, 0, gradients + full},
                                    {"HybridShard of 1", BufferNeeded, 1, 0, few + full}};
  if (ranks == 4) {
    all.push_back({"HybridShard of 2", BufferNeeded, 2, 2 * largest, few + half});
    all.push_back({"HybridShardGradOp of 2", EndOfBackward, 2, full, few + half});
    all.push_back({"ShardOptimizer of 2", ShardsChange, 2, full, gradients + half});
  }
  return all;
}

// `make` may use its units in any order, of which as many are open at once as `buffers` says, less one.
void expect_formulas(World& world, const std::function<TestModel()>& make, int64_t buffers) {
  size_t strategies = 1;
  for (size_t i = 0; i < strategies; ++i) {
    const TestModel model = make();
    const auto all = [&](const engine::Units& units) { return formulas(units, world.size(), buffers); };
    const MemoryOfStrategy strategy = all({}).at(i);
    strategies = all({}).size();
    SCOPED_TRACE(strategy.name);
    engine::ModelSpec spec{.units = unit_specs_of(*model.module),
                           .group = testing::make_device_group_over_gloo(world),
                           .shards = strategy.shards,
                           .full_until = strategy.full_until};
    ShardedModel sharded(std::make_shared<engine::Model>(std::move(spec)));
    const MemoryOfStrategy expected = all(sharded.model().units()).at(i);
    AdamW optimizer(sharded);
    for (int step = 0; step < 3; ++step) {
      model.loss(world.rank()).backward();
      const MemoryReport memory = sharded.memory();
      EXPECT_EQ(memory.full_parameter_bytes, 4 * expected.full_parameters) << "step " << step;
      EXPECT_EQ(memory.full_gradient_bytes, 4 * expected.full_gradients) << "step " << step;
      optimizer.step();
      optimizer.zero_grad();
    }
  }
}

// Layers in the order of their registration, which is not that of their use.
TestModel make_shuffled_layers() {
  torch::manual_seed(5);
  torch::nn::Sequential layers;
  for (int i = 0; i < 7; ++i) layers->push_back(torch::nn::Linear(8 + i % 2 * 8, 16 - i % 2 * 8));
  return {layers.ptr(), [layers](int64_t b) mutable {
            torch::Tensor x = testing_models::values_for(b, {4, 8});
            for (int i : {4, 1, 0, 5, 2, 3}) x = torch::tanh(layers->at<torch::nn::LinearImpl>(i).forward(x));
            return layers->at<torch::nn::LinearImpl>(6).forward(x).pow(2).mean();
          }};
}

class DeviceMemory : public ::testing::TestWithParam<int> {};

TEST_P(DeviceMemory, FollowsTheFormulaOfEachStrategyFromTheFirstStepOn) {
  run_ranks(GetParam(), [](World& world) {
    expect_formulas(world, testing_models::model_kinds()[1].make, 3);
    expect_formulas(world, make_shuffled_layers, 2);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceMemory, ::testing::Values(2, 4), ::testing::PrintToStringParamName());

// Two ranks with a micro-batch each: a sum of two has one order.
TEST(DeviceModel, HasTheBitsOfOneProcess) {
  run_ranks(2, [](World& world) {
    for (int shards : {1, 2})
      expect_same_bits(world, testing::make_device_group_over_gloo, shards,
                       {.steps = 4, .micro_batches = 2, .clip = 0.05});
  });
}
#endif

}  // namespace
}  // namespace fsdp
