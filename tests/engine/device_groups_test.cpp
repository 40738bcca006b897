// Sharded models over the groups that serve GPUs, with the CPU in the device's place: the whole way of a step but for
// the device's own streams.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <unordered_set>

#include "collectives/backends.h"
#include "engine/model.h"
#include "support/device_over_gloo.h"
#include "support/drawn.h"
#include "support/experts.h"
#include "support/masked_models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"
#include "world/state.h"

namespace fsdp {
namespace {

using fsdp::testing::run_rank_processes;
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
  std::vector<testing_models::ModelKind> kinds = testing_models::model_kinds();
  kinds.push_back({"masked convolutions", testing_models::make_masked});
  for (const auto& kind : kinds) {
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
                         testing::drawn<testing::Job>({{2, "shm"}, {2, "gloo"}}, {{1}, {4, "shm"}}),
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
// The groups over Gloo are of processes: these meet in a file that has the name of their parent.

// Each rank uses other experts, each of which is a unit. On more than two ranks the sums have an order of their own.
TEST(DeviceModel, RanksMayUseOtherUnits) {
  for (int ranks : {2, 4}) {
    run_rank_processes(ranks, [](World& world) {
      using enum schedule::FullUntil;
      for (const auto& [shards, full_until] : {std::pair(world.size(), BufferNeeded),
                                               {2, BufferNeeded},
                                               {2, EndOfBackward},
                                               {2, ShardsChange},
                                               {1, ShardsChange}}) {
        SCOPED_TRACE(shards);
        const Training training{.steps = 5, .micro_batches = world.size()};
        const TestModel model = testing_models::make_experts();
        engine::ModelSpec spec{.units = unit_specs_of(*model.module),
                               .group = testing::make_device_group_over_gloo(world),
                               .shards = shards,
                               .full_until = full_until};
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

// A group on the CPU that counts what it exchanges.
class Counting final : public collectives::Group, public collectives::TensorOperations {
 public:
  struct Counts {
    int reductions = 0, gathers = 0;
  };
  Counting(std::unique_ptr<collectives::Group> group, Counts& counts) : group_(std::move(group)), counts_(counts) {}

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::unique_ptr<collectives::UnitCollectives> open_unit(const collectives::GroupUnitSpec& spec) override {
    return std::make_unique<Unit>(group_->open_unit(spec), counts_);
  }
  torch::Tensor allocate(int64_t bytes) override { return group_->allocate(bytes); }
  collectives::TensorOperations& tensors() override { return *this; }
  void barrier() override { group_->barrier(); }
  void all_reduce_(torch::Tensor& tensor, ReduceOp op) override { group_->all_reduce_(tensor, op); }
  void broadcast_(torch::Tensor& tensor, int source) override { group_->broadcast_(tensor, source); }
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose) override {
    ++counts_.gathers;
    return group_->all_gather(tensor, purpose);
  }
  bool exchange(const std::vector<torch::Tensor>& to, const std::vector<torch::Tensor>& from,
                const std::string& purpose) override {
    return group_->tensors().exchange(to, from, purpose);
  }
  std::unique_ptr<collectives::TensorMessage> send(const torch::Tensor& tensor, int peer, int tag) override {
    return group_->tensors().send(tensor, peer, tag);
  }
  std::unique_ptr<collectives::TensorMessage> receive_(torch::Tensor& tensor, int peer, int tag) override {
    return group_->tensors().receive_(tensor, peer, tag);
  }

 private:
  struct Unit final : collectives::UnitCollectives {
    Unit(std::unique_ptr<collectives::UnitCollectives> of, Counts& counts) : unit(std::move(of)), counts(counts) {}
    collectives::Capabilities capabilities() const override { return unit->capabilities(); }
    torch::Tensor shard() const override { return unit->shard(); }
    collectives::UnitBytes bytes() const override { return unit->bytes(); }
    int64_t staging_numel(const layout::GradientLayout& layout) const override { return unit->staging_numel(layout); }
    bool begin_write(collectives::Readers readers) override { return unit->begin_write(readers); }
    void publish() override { unit->publish(); }
    void begin_gather(const torch::Tensor& buffer, collectives::Order order) override {
      unit->begin_gather(buffer, order);
    }
    void* wait_gather() override { return unit->wait_gather(); }
    void release() override { unit->release(); }
    void begin_reduce(collectives::Gradients gradients, collectives::GradientSum& sum) override {
      ++counts.reductions;
      unit->begin_reduce(std::move(gradients), sum);
    }
    collectives::Begun wait_begun() override { return unit->wait_begun(); }
    void wait_reduce() override { unit->wait_reduce(); }
    void wait_sum() override { unit->wait_sum(); }
    bool sum_is_complete() override { return unit->sum_is_complete(); }

    std::unique_ptr<collectives::UnitCollectives> unit;
    Counts& counts;
  };

  std::unique_ptr<collectives::Group> group_;
  Counts& counts_;
};

// Two layers of one unit, and one of another. `uses` says whether a micro-batch uses the second and the third.
using Uses = std::function<std::pair<bool, bool>(int64_t step, int64_t rank)>;

struct TwoUnits {
  std::shared_ptr<torch::nn::SequentialImpl> layers;
  std::vector<engine::UnitSpec> units;
  TestModel model;
};

TwoUnits make_two_units(const Uses& uses, int64_t ranks) {
  torch::manual_seed(9);
  torch::nn::Sequential layers;
  for (int i = 0; i < 3; ++i) layers->push_back(torch::nn::Linear(8, 8));
  NamedUnit two{"two", {}, {}}, one{"one", {}, {}};
  for (const auto& parameter : layers->named_parameters())
    (parameter.key()[0] == '2' ? one : two).parameters.emplace_back(parameter.key(), parameter.value());
  const auto loss = [=](int64_t b) mutable {
    const auto layer = [&](int i, const torch::Tensor& x) {
      return torch::tanh(layers->at<torch::nn::LinearImpl>(i).forward(x));
    };
    const auto [second, third] = uses(b / ranks, b % ranks);
    torch::Tensor x = layer(0, testing_models::values_for(b, {4, 8}));
    if (second) x = layer(1, x);
    if (third) x = layer(2, x);
    return x.pow(2).mean();
  };
  return {layers.ptr(), {{two}, {one}}, {layers.ptr(), loss}};
}

// The exchanges on the CPU in the backward of each step. Expects the bits of one process.
std::vector<Counting::Counts> exchanges_of(World& world, const Uses& uses, int shards, int steps) {
  Counting::Counts counts;
  const TwoUnits layers = make_two_units(uses, world.size());
  const auto wrap = [&](std::unique_ptr<collectives::Group> host) {
    return std::make_unique<Counting>(std::move(host), counts);
  };
  engine::ModelSpec spec{
      .units = layers.units, .group = testing::make_device_group_over_gloo(world, wrap), .shards = shards};
  if (shards > 1) spec.full_until = schedule::FullUntil::EndOfBackward;
  ShardedModel sharded(std::make_shared<engine::Model>(std::move(spec)));
  const Training training{.steps = steps, .micro_batches = world.size()};
  AdamW optimizer(sharded, {.lr = training.lr});
  sharded.set_gradient_divisor(static_cast<double>(world.size()));
  std::vector<Counting::Counts> all;
  for (int64_t step = 0; step < steps; ++step) {
    const torch::Tensor loss = layers.model.loss(step * world.size() + world.rank());
    counts = {};
    loss.backward();
    all.push_back(counts);
    for (const auto& parameter : sharded.parameters()) {
      const bool second = parameter.name[0] == '1', third = parameter.name[0] == '2';
      bool any = !second && !third;
      for (int rank = 0; rank < world.size(); ++rank) {
        const auto [uses_second, uses_third] = uses(step, rank);
        any |= (second && uses_second) || (third && uses_third);
      }
      EXPECT_EQ(parameter.piece.grad().defined(), any) << parameter.name << " in step " << step;
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  const auto found = testing_models::whole_weights(*layers.layers, sharded);
  const auto expected = testing_models::train_unsharded(make_two_units(uses, world.size()).model, training);
  EXPECT_THAT(testing_models::differences(expected, found), IsEmpty());
  return all;
}

TEST(DeviceModel, ExchangesNothingOnTheHostForARegularReduction) {
  run_rank_processes(2, [](World& world) {
    for (int shards : {1, 2}) {
      const auto always = [](int64_t, int64_t) { return std::pair(true, true); };
      const auto counts = exchanges_of(world, always, shards, 6);
      EXPECT_GT(counts[0].reductions, 0);
      for (int step = 2; step < 6; ++step) {
        EXPECT_EQ(counts[step].reductions, 0) << step;
        EXPECT_EQ(counts[step].gathers, 1) << step;  // the end of the backward
      }
    }
  });
}

// A parameter's gradients go away on one rank and on all, and come back, while none of that is expected.
TEST(DeviceModel, FindsGradientsThatAreOthersThanExpected) {
  run_rank_processes(2, [](World& world) {
    for (int shards : {1, 2}) {
      const std::vector<Uses> all{
          [](int64_t step, int64_t rank) { return std::pair(step < 4 || rank == 0, true); },
          [](int64_t step, int64_t) { return std::pair(step < 4 || step > 8, true); },
          [](int64_t step, int64_t) { return std::pair(step > 4 && step < 9, true); },
          [](int64_t step, int64_t rank) { return std::pair(step > 4 && rank == 1, true); },
          [](int64_t step, int64_t rank) { return std::pair(true, step % 5 != 4 || rank == 0); },
          [](int64_t step, int64_t) { return std::pair(true, step % 6 < 4); }};
      for (const Uses& uses : all) exchanges_of(world, uses, shards, 14);
    }
  });
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
  int64_t full = 0, largest = 0, largest_gradients = 0;
  for (const auto& unit : units) {
    full += unit->layout.full_numel();
    largest = std::max(largest, unit->layout.full_numel());
    largest_gradients = std::max(largest_gradients, unit->sum.gradient_layout().full_numel());
  }
  using enum schedule::FullUntil;
  const int64_t few = buffers * largest_gradients;
  std::vector<MemoryOfStrategy> all{{"FullShard", BufferNeeded, ranks, 2 * largest, few},
                                    {"ShardGradOp", EndOfBackward, ranks, full, few},
                                    {"ShardOptimizer", ShardsChange, ranks, full, few},
                                    {"NoShard", ShardsChange, 1, 0, few},
                                    {"HybridShard of 1", BufferNeeded, 1, 0, few}};
  if (ranks == 4) {
    all.push_back({"HybridShard of 2", BufferNeeded, 2, 2 * largest, few});
    all.push_back({"HybridShardGradOp of 2", EndOfBackward, 2, full, few});
    all.push_back({"ShardOptimizer of 2", ShardsChange, 2, full, few});
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

TEST_P(DeviceMemory, FollowsTheFormulaOfEachStrategy) {
  run_rank_processes(GetParam(), [](World& world) {
    expect_formulas(
        world, [] { return testing_models::make_gpt(); }, 3);
    expect_formulas(world, testing_models::model_kinds()[1].make, 3);
    expect_formulas(world, make_shuffled_layers, 2);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceMemory, ::testing::Values(2, 4), ::testing::PrintToStringParamName());

// Two ranks with a micro-batch each: a sum of two has one order.
TEST(DeviceModel, HasTheBitsOfOneProcess) {
  run_rank_processes(2, [](World& world) {
    for (int shards : {1, 2})
      expect_same_bits(world, [](World& w) { return testing::make_device_group_over_gloo(w); }, shards,
                       {.steps = 4, .micro_batches = 2, .clip = 0.05});
  });
}
#endif

}  // namespace
}  // namespace fsdp
