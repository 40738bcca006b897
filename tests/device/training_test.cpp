// What a training on the tests' device writes has the bits of the same training on the CPU: with every optimizer, with
// clipping and scaling, and from checkpoint to checkpoint.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <optional>

#include "device/device.h"
#include "device/on_streams.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/variable.h"

namespace fsdp {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using testing_models::TestModel;

constexpr int kSteps = 4;

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(ShardedModel&)>;
struct OptimizerKind {
  std::string name;
  MakeOptimizer make;
};

template <typename Kind, typename Settings>
OptimizerKind kind(const std::string& name, const Settings& settings) {
  return {name, [settings](ShardedModel& model) { return std::make_unique<Kind>(model, settings); }};
}

std::vector<OptimizerKind> optimizer_kinds() {
  return {kind<AdamW>("AdamW", AdamWOptions{.lr = 1e-2}),
          kind<AdamW>("AdamW in bf16", AdamWOptions{.lr = 1e-2, .state_dtype = StateDtype::BFloat16}),
          kind<Adam>("Adam", AdamOptions{.lr = 1e-2, .weight_decay = 1e-2}),
          kind<Adam>("Adam, amsgrad", AdamOptions{.lr = 1e-2, .amsgrad = true}),
          kind<SGD>("SGD", SGDOptions{.lr = 1e-1}),
          kind<SGD>("SGD with momentum", SGDOptions{.lr = 1e-1, .momentum = 0.9, .nesterov = true}),
          kind<Muon>("Muon", MuonOptions{.lr = 1e-2})};
}

// One training on the world's device.
struct DeviceRun {
  DeviceRun(World& world, const MakeOptimizer& make_optimizer, const Options& options = {})
      : world(world), sharded(shard(*model.module, world, options)), optimizer(make_optimizer(sharded)) {}

  void step() {
    scaler.scale(model.loss(steps++ * world.size() + world.rank())).backward();
    scaler.unscale_(sharded);
    sharded.clip_grad_norm_(0.05);
    scaler.step(*optimizer);
    scaler.update();
    optimizer->zero_grad();
  }
  void step_to(int64_t last) {
    while (steps < last) step();
  }
  Checkpoint checkpoint() { return {.model = &sharded, .optimizer = optimizer.get(), .step = steps}; }

  World& world;
  testing_models::OnDevice data{world.device()};
  TestModel model = testing::on_device(testing_models::make_gpt(), world.device());
  ShardedModel sharded;
  std::unique_ptr<Optimizer> optimizer;
  GradScaler scaler{{.init_scale = 1024, .growth_interval = 2}};
  int64_t steps = 0;
};

void write_weights(DeviceRun& run, const fs::path& file) {
  std::vector<torch::Tensor> weights;
  for (const auto& [name, weight] : run.sharded.full_state()) weights.push_back(weight.cpu());
  if (run.world.rank() == 0) torch::save(weights, file.string());
}

std::vector<torch::Tensor> read_weights(const fs::path& file) {
  std::vector<torch::Tensor> weights;
  torch::load(weights, file.string());
  return weights;
}

void expect_equal_files(const fs::path& one, const fs::path& other) {
  ASSERT_TRUE(fs::exists(one) && fs::exists(other));
  const auto a = read_weights(one), b = read_weights(other);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << one << ", weight " << i;
}

// Where shards lie: of ranks on the CPU, of ranks that share a device, of ranks with a device each that exchange over
// NCCL and have `cpu_offload`.
enum class Place { Cpu, Device, Host };
constexpr Place kPlaces[] = {Place::Cpu, Place::Device, Place::Host};

std::string name_of(Place place) {
  return place == Place::Cpu ? "cpu" : place == Place::Device ? "device" : "offloaded";
}

void run_ranks_on(Place place, int ranks, const std::function<void(World&, const Options&)>& body) {
  std::optional<testing::Variable> hidden, devices;
  if (place == Place::Cpu) hidden.emplace("CUDA_VISIBLE_DEVICES", "");
  if (place == Place::Host) devices.emplace("FSDP_TEST_DEVICES", "2");
  testing::run_rank_processes(ranks, [&](World& world) {
    EXPECT_EQ(world.device().is_cpu(), place == Place::Cpu);
    body(world, {.cpu_offload = place == Place::Host});
    EXPECT_THAT(testing::device::missing_waits(), IsEmpty());
  });
}

TEST(TrainingOnDevice, HasTheBitsOfTheCpuWithEveryOptimizer) {
  const testing::ScratchDirectory scratch;
  for (const Place place : kPlaces) {
    run_ranks_on(place, 2, [&](World& world, const Options& options) {
      testing::device::start_log();
      for (const OptimizerKind& one : optimizer_kinds()) {
        DeviceRun run(world, one.make, options);
        run.step_to(kSteps);
        write_weights(run, scratch.path() / (one.name + " " + name_of(place)));
      }
    });
  }
  for (const OptimizerKind& one : optimizer_kinds()) {
    for (const std::string place : {" device", " offloaded"})
      expect_equal_files(scratch.path() / (one.name + " cpu"), scratch.path() / (one.name + place));
  }
}

const MakeOptimizer kAdamW = optimizer_kinds()[0].make;

// Saved beside training on the device, and trained on on the CPU, and the other way round.
TEST(CheckpointOnDevice, GoesOnElsewhereWithTheSameBits) {
  const testing::ScratchDirectory scratch;
  for (const Place place : kPlaces) {
    const std::string name = name_of(place);
    run_ranks_on(place, 2, [&](World& world, const Options& options) {
      testing::device::start_log();
      DeviceRun run(world, kAdamW, options);
      run.step_to(2);
      save_checkpoint(scratch.path() / (name + " waited for"), run.checkpoint());
      const PendingCheckpoint pending = save_checkpoint_async(scratch.path() / (name + " beside"), run.checkpoint());
      run.step_to(kSteps);
      pending.wait();
      write_weights(run, scratch.path() / name);
    });
  }
  expect_equal_files(scratch.path() / "cpu", scratch.path() / "device");
  expect_equal_files(scratch.path() / "cpu", scratch.path() / "offloaded");
  const std::vector<std::pair<std::string, Place>> journeys{
      {"device waited for", Place::Cpu}, {"device beside", Place::Cpu},    {"cpu beside", Place::Device},
      {"cpu waited for", Place::Host},   {"offloaded beside", Place::Cpu}, {"offloaded waited for", Place::Host}};
  for (const auto& [from, to] : journeys) {
    run_ranks_on(to, 1, [&](World& world, const Options& options) {
      DeviceRun run(world, kAdamW, options);
      EXPECT_EQ(load_checkpoint(scratch.path() / from, run.checkpoint()), 2);
    });
    run_ranks_on(to, 2, [&](World& world, const Options& options) {
      DeviceRun run(world, kAdamW, options);
      run.steps = load_checkpoint(scratch.path() / from, run.checkpoint());
      run.scaler.load_state({.scale = 2048, .finite_steps = 0});
      run.step_to(kSteps);
      write_weights(run, scratch.path() / (from + " and on"));
    });
    expect_equal_files(scratch.path() / (from + " and on"), scratch.path() / "cpu");
  }
}

// Hooks, no_sync, full_parameters and recomputation, with the bits of the CPU.
TEST(TrainingOnDevice, HasTheBitsOfTheCpuInOtherCalls) {
  const testing::ScratchDirectory scratch;
  for (const Place place : kPlaces) {
    run_ranks_on(place, 2, [&](World& world, Options options) {
      testing::device::start_log();
      options.strategy = Strategy::ShardGradOp;
      DeviceRun run(world, kAdamW, options);
      {
        const auto scope = run.sharded.no_sync();
        run.model.loss(world.rank()).backward();
      }
      run.step();
      {
        const auto scope = run.sharded.full_parameters();
        for (torch::Tensor& parameter : run.model.module->parameters()) parameter.data().mul_(0.5);
      }
      run.step_to(kSteps);
      EXPECT_GT(run.sharded.memory().total_bytes(), 0);
      write_weights(run, scratch.path() / name_of(place));
    });
  }
  expect_equal_files(scratch.path() / "cpu", scratch.path() / "device");
  expect_equal_files(scratch.path() / "cpu", scratch.path() / "offloaded");
}

}  // namespace
}  // namespace fsdp
