// Models that lie in files: the bits of one process, the memory that is told, and no more of it than a few units'.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "engine/model.h"
#include "support/allocated_memory.h"
#include "support/drawn.h"
#include "support/resident_bytes.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/train_sharded.h"
#include "support/variable.h"

namespace fsdp {
namespace {

namespace fs = std::filesystem;

using fsdp::testing::Job;
using fsdp::testing::resident_bytes_of_files_in;
using fsdp::testing::run_rank_processes;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::IsEmpty;
using testing_models::differences;
using testing_models::make_gpt;
using testing_models::TestModel;
using testing_models::Training;

class Offloaded : public ::testing::TestWithParam<Job> {};
class OffloadedBits : public Offloaded {};
const auto kOffloadedJobs = testing::drawn<Job>({{3, "shm"}, {2, "gloo"}}, {{1}, {2, "shm"}, {3, "gloo"}});
INSTANTIATE_TEST_SUITE_P(Jobs, Offloaded, kOffloadedJobs, ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Jobs, OffloadedBits, kOffloadedJobs, ::testing::PrintToStringParamName());

std::vector<std::pair<std::string, Options>> strategies_of(int ranks) {
  auto strategies = testing_models::every_strategy(ranks);
  strategies.push_back({"HybridShard of 1", {.strategy = Strategy::HybridShard, .shard_group_size = 1}});
  return strategies;
}

using Dtypes = std::vector<std::optional<torch::ScalarType>>;

// Each strategy offloads all with one dtype, and the optimizer alone with the other.
void expect_bits(World& world, const fs::path& folder, const std::function<TestModel()>& make, Training training,
                 const Dtypes& dtypes = {std::nullopt, torch::kBFloat16}) {
  auto strategies = strategies_of(world.size());
  for (size_t d = 0; d < dtypes.size(); ++d) {
    training.param_dtype = dtypes[d];
    testing_models::Expected expected(make, training);
    for (size_t i = 0; i < strategies.size(); ++i) {
      auto& [name, options] = strategies[i];
      const bool all = (i + d) % 2 == 0;
      options.offload_directory = folder;
      options.offload = all ? Offload::All : Offload::Optimizer;
      options.mixed_precision.param_dtype = dtypes[d];
      SCOPED_TRACE(name + (dtypes[d] ? ", bf16" : ", fp32") + (all ? ", all" : ", optimizer"));
      testing_models::expect_same_bits(expected, world, options);
    }
  }
}

// Over Gloo, three ranks are there for their uneven shards: dtypes are left to two.
Dtypes dtypes_of(const Job& job) {
  if (job.backend == "gloo" && job.ranks == 3) return {std::nullopt};
  return {std::nullopt, torch::kBFloat16};
}

TEST_P(OffloadedBits, EveryStrategyHasTheBitsOfOneProcess) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    const Dtypes dtypes = dtypes_of(GetParam());
    expect_bits(
        world, scratch.path(), [] { return make_gpt(); }, {.steps = 3, .micro_batches = 6, .clip = 0.05}, dtypes);
    expect_bits(
        world, scratch.path(), [] { return make_gpt(2); },
        {.steps = 3, .micro_batches = 6, .state_dtype = StateDtype::Block8}, dtypes);
  });
}

TEST_P(OffloadedBits, AStepInTheBackwardHasTheBitsOfOneProcess) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    expect_bits(
        world, scratch.path(), [] { return make_gpt(6); },
        {.steps = 4, .micro_batches = 6, .state_dtype = StateDtype::BFloat16, .in_backward_every = 1},
        dtypes_of(GetParam()));
  });
}

// Gathers by copies read the shards in another mapping.
TEST(OffloadedTraining, ByCopiesHasTheBitsOfOneProcess) {
  const ScratchDirectory scratch;
  const testing::CopyingGathers copying;
  run_ranks(2,
            [&](World& world) {
              expect_bits(world, scratch.path(), [] { return make_gpt(); }, {.steps = 3, .micro_batches = 4});
            },
            {.backend = "shm"});
}

TEST(OffloadedTraining, OnSeveralHostsHasTheBitsOfOneProcess) {
  const ScratchDirectory scratch;
  testing::run_on_hosts({.hosts = 2, .ranks = 2}, [&](World& world) {
    expect_bits(world, scratch.path(), [] { return make_gpt(); }, {.steps = 3, .micro_batches = 4});
  });
}

void run_step(const TestModel& model, Optimizer& optimizer, World& world) {
  model.loss(world.rank()).backward();
  optimizer.step();
}

TEST_P(Offloaded, TellsWhatLiesInFiles) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    const auto report_of = [&](const Options& options) {
      const TestModel model = make_gpt();
      auto sharded = shard(*model.module, world, options);
      AdamW optimizer(sharded);
      run_step(model, optimizer, world);
      return sharded.memory();
    };
    for (const auto param_dtype : {std::optional<torch::ScalarType>(), std::optional(torch::kBFloat16)}) {
      Options options{.mixed_precision = {.param_dtype = param_dtype}};
      const MemoryReport plain = report_of(options);
      EXPECT_EQ(plain.offloaded_bytes, 0);
      options.offload_directory = scratch.path();
      const MemoryReport all = report_of(options);
      options.offload = Offload::Optimizer;
      const MemoryReport optimizer = report_of(options);
      EXPECT_EQ(optimizer.offloaded_bytes, plain.optimizer_bytes);
      // One rank alone keeps its gradients where autograd made them.
      EXPECT_EQ(all.offloaded_bytes,
                plain.parameter_bytes + plain.optimizer_bytes + (world.size() > 1 ? plain.gradient_bytes : 0));
      for (const MemoryReport& report : {all, optimizer}) EXPECT_EQ(report.total_bytes(), plain.total_bytes());
    }
    world.barrier();
    EXPECT_TRUE(fs::is_empty(scratch.path()));  // with the models
  });
}

// Linear layers, each a unit.
constexpr int kLayers = 12;
constexpr int64_t kWidth = 256;

torch::nn::Sequential make_layers() {
  torch::nn::Sequential layers;
  for (int i = 0; i < kLayers; ++i) layers->push_back(torch::nn::Linear(kWidth, kWidth));
  return layers;
}

// The most that is resident of the files, at each layer of a forward and a backward, and behind the step.
size_t most_resident(torch::nn::Sequential& layers, Optimizer& optimizer, const fs::path& folder) {
  size_t most = 0;
  const auto look = [&] { most = std::max(most, resident_bytes_of_files_in(folder.string())); };
  torch::Tensor x = torch::full({4, kWidth}, 0.1);
  for (auto& layer : *layers) {
    x = torch::tanh(layer.forward<torch::Tensor>(x));
    x.register_hook([&](const torch::Tensor&) { look(); });
    look();
  }
  x.sum().backward();
  look();
  optimizer.step();
  look();
  optimizer.zero_grad();
  return most;
}

TEST_P(Offloaded, IsResidentAFewUnitsAtATime) {
  const ScratchDirectory scratch;
  run_rank_processes(GetParam(), [&](World& world) {
    auto layers = make_layers();
    auto sharded =
        shard(*layers, world, {.units = units_of<torch::nn::LinearImpl>(), .offload_directory = scratch.path()});
    AdamW optimizer(sharded);
    for (int step = 0; step < 3; ++step) {
      const size_t most = most_resident(layers, optimizer, scratch.path());
      // Of each rank: two units that are full, and the shards and sums of those that are being gathered and reduced.
      EXPECT_LT(most, 4 * kWidth * (kWidth + 64) * sizeof(float)) << step;
      EXPECT_GT(most, 0u) << step;
    }
    // What the next step begins with.
    EXPECT_LT(resident_bytes_of_files_in(scratch.path().string()), size_t(sharded.memory().offloaded_bytes) / 8);
  });
}

TEST_P(Offloaded, StepsInTheBackwardFreeTheSums) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    if (world.size() == 1) return;
    auto layers = make_layers();
    auto sharded =
        shard(*layers, world, {.units = units_of<torch::nn::LinearImpl>(), .offload_directory = scratch.path()});
    AdamW optimizer(sharded);
    for (int step = 0; step < 3; ++step) {
      const auto in_backward = optimizer.step_in_backward();
      most_resident(layers, optimizer, scratch.path());
      const MemoryReport report = sharded.memory();
      EXPECT_EQ(report.gradient_bytes, 0) << step;
      EXPECT_EQ(report.offloaded_bytes, report.parameter_bytes + report.optimizer_bytes) << step;
    }
  });
}

TEST_P(Offloaded, SavesAndLoadsTheCheckpointsOfModelsInMemory) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    const Training training{.steps = 4, .micro_batches = 6};
    const auto half = [&](const TestModel& model, ShardedModel& sharded, Optimizer& optimizer, int first) {
      sharded.set_gradient_divisor(6);
      for (int step = first; step < first + 2; ++step) {
        for (int64_t b = world.rank(); b < 6; b += world.size()) model.loss(step * 6 + b).backward();
        optimizer.step();
        optimizer.zero_grad();
      }
    };
    const Options in_files{.offload_directory = scratch.path() / "offload"};
    int number = 0;
    for (const auto& [first, second] : {std::pair(Options{}, in_files), {in_files, Options{}}}) {
      const fs::path checkpoint = scratch.path() / ("checkpoint" + std::to_string(number++));
      const TestModel model = make_gpt(), other = make_gpt();
      {
        auto sharded = shard(*model.module, world, first);
        AdamW optimizer(sharded, {.lr = training.lr});
        half(model, sharded, optimizer, 0);
        save_checkpoint(checkpoint, {.model = &sharded, .optimizer = &optimizer, .step = 2});
      }
      auto sharded = shard(*other.module, world, second);
      AdamW optimizer(sharded, {.lr = training.lr});
      EXPECT_EQ(load_checkpoint(checkpoint, {.model = &sharded, .optimizer = &optimizer}), 2);
      half(other, sharded, optimizer, 2);
      EXPECT_THAT(differences(testing_models::train_unsharded(make_gpt(), training),
                              testing_models::whole_weights(*other.module, sharded)),
                  IsEmpty());
    }
  });
}

// State that lies in files may be larger than the memory.
TEST_P(Offloaded, LoadsHoldNoSecondCopy) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    const auto make = [] {
      torch::nn::Sequential net;
      for (int layer = 0; layer < 24; ++layer) net->push_back(torch::nn::Linear(200, 200));
      return net;
    };
    auto saved = make();
    auto expected = shard(*saved, world);
    AdamW trained(expected);
    saved->forward(torch::ones({2, 200}) * (world.rank() + 1)).sum().backward();
    trained.step();
    save_checkpoint(scratch.path() / "checkpoint", {.model = &expected, .optimizer = &trained, .step = 1});
    save_pretrained(scratch.path() / "model", expected);
    const NamedTensors weights = expected.full_state();
    for (const bool in_files : {false, true}) {
      SCOPED_TRACE(in_files);
      auto net = make();
      auto sharded = shard(*net, world, {.offload_directory = in_files ? scratch.path() / "offload" : fs::path()});
      AdamW optimizer(sharded);
      const int64_t shard_bytes = sharded.memory().parameter_bytes;
      const auto expect_loaded = [&](bool is_held, const std::function<void()>& load) {
        {
          const torch::NoGradGuard no_grad;
          for (torch::Tensor& shard : sharded.shards()) shard.zero_();
        }
        testing::AllocatedMemory memory;
        load();
        const int64_t most = memory.most_bytes();
        if (is_held) {
          EXPECT_GE(most, shard_bytes * 9 / 10);
        } else {
          EXPECT_LT(most, shard_bytes / 4);  // a parameter at a time
        }
        const NamedTensors found = sharded.full_state();
        for (size_t i = 0; i < weights.size(); ++i) EXPECT_TRUE(torch::equal(found[i].second, weights[i].second));
      };
      expect_loaded(
          false, [&] { load_checkpoint(scratch.path() / "checkpoint", {.model = &sharded, .optimizer = &optimizer}); });
      const Optimizer::State state = optimizer.state(), of_trained = trained.state();
      for (size_t kind = 0; kind < state.elements.size(); ++kind) {
        for (size_t i = 0; i < weights.size(); ++i) {
          EXPECT_TRUE(torch::equal(state.elements[kind].tensors[i], of_trained.elements[kind].tensors[i]));
        }
      }
      expect_loaded(!in_files, [&] { load_pretrained(scratch.path() / "model", sharded); });
    }
  });
}

// Of one job, as a generator and its critic.
TEST_P(Offloaded, TwoModelsShareAFolder) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    const Options options{.offload_directory = scratch.path() / "." / "offload"};
    const TestModel model = make_gpt(), other = make_gpt();
    auto first = std::make_unique<ShardedModel>(shard(*model.module, world, options));
    World split = world.split(0);
    auto second = shard(*other.module, split, {.offload_directory = scratch.path() / "offload"});
    first.reset();
    AdamW optimizer(second);
    run_step(other, optimizer, world);
    EXPECT_TRUE(fs::exists(scratch.path() / "offload" / ("rank-" + std::to_string(world.rank()) + ".lock")));
  });
}

}  // namespace
}  // namespace fsdp
