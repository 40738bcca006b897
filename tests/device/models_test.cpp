// Sharded models on the tests' device have the bits of one process, whatever the options, and wait where they have to.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "device/device.h"
#include "device/on_streams.h"
#include "engine/model.h"
#include "property/random_case.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"
#include "support/variable.h"

namespace fsdp {
namespace {

using fsdp::testing::run_rank_processes;
using ::testing::IsEmpty;
using testing_models::TestModel;
using testing_models::Training;

// Trains what `make` makes, and expects the bits of what `make_unsharded` makes. A collective.
void expect_same_bits(World& world, const std::function<TestModel()>& make,
                      const std::function<TestModel()>& make_unsharded, const Training& training,
                      const Options& options, bool on_streams) {
  ASSERT_TRUE(world.device().is_cuda());
  const testing_models::OnDevice data_on_device(world.device());
  const TestModel model = testing::on_device(make(), world.device());
  ShardedModel sharded =
      on_streams ? testing::shard_on_streams(*model.module, world, options) : shard(*model.module, world, options);
  testing::device::start_log();
  testing_models::train(model, sharded, world, training);
  const auto found = testing_models::whole_weights(*model.module, sharded);
  testing::device::stop_log();
  EXPECT_THAT(testing::device::missing_waits(), IsEmpty());
  if (world.rank() != 0) return;
  const auto expected = testing_models::train_unsharded(testing::on_device(make_unsharded(), world.device()), training);
  EXPECT_THAT(testing_models::differences(expected, found), IsEmpty());
}

Training training_of(const World& world) { return {.steps = 3, .micro_batches = 2 * world.size(), .clip = 0.05}; }

// The CPU's, but for recurrent layers, which have kernels of their own on a GPU.
TEST(ModelOnDevice, HasTheBitsOfTheCpu) {
  const Training training{.steps = 3, .micro_batches = 2, .clip = 0.05};
  for (const auto& kind : testing_models::model_kinds()) {
    if (kind.name == "lstm") continue;
    SCOPED_TRACE(kind.name);
    const auto expected = testing_models::train_unsharded(kind.make(), training);
    const testing_models::OnDevice on_device(torch::kCUDA);
    const auto found = testing_models::train_unsharded(testing::on_device(kind.make(), torch::kCUDA), training);
    EXPECT_THAT(testing_models::differences(expected, found), IsEmpty());
  }
}

void expect_same_bits_of_all_kinds(World& world, const Training& training, bool on_streams) {
  for (const auto& kind : testing_models::model_kinds()) {
    SCOPED_TRACE(kind.name);
    expect_same_bits(world, kind.make, kind.make, training, {}, on_streams);
  }
}

TEST(ModelOnDevice, OfOneRankHasTheBitsOfOneProcess) {
  run_rank_processes(1, [](World& world) { expect_same_bits_of_all_kinds(world, training_of(world), false); });
}

TEST(ModelOnDevice, OfRanksWithOneGpuHasTheBitsOfOneProcess) {
  for (int ranks : {2, 3})
    run_rank_processes(ranks, [](World& world) { expect_same_bits_of_all_kinds(world, training_of(world), false); });
}

// A sum of two has one order.
TEST(ModelOnDevice, OnStreamsHasTheBitsOfOneProcess) {
  run_rank_processes(2, [](World& world) {
    expect_same_bits_of_all_kinds(world, {.steps = 3, .micro_batches = 2, .clip = 0.05}, true);
  });
}

TEST(ModelOnDevice, OfRanksWithAGpuEachHasTheBitsOfOneProcess) {
  const testing::Variable devices("FSDP_TEST_DEVICES", "2");
  run_rank_processes(2, [](World& world) {
    EXPECT_EQ(world.device(), torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(world.rank())));
    const Training training{.steps = 3, .micro_batches = 2, .clip = 0.05};
    for (const bool on_streams : {false, true})
      expect_same_bits(
          world, [] { return testing_models::make_gpt(); }, [] { return testing_models::make_gpt(); }, training, {},
          on_streams);
  });
}

std::vector<std::pair<std::string, Options>> every_option(const World& world) {
  auto all = testing_models::every_strategy(world.size());
  all.push_back({"offload_activations", {.offload_activations = true, .offload_activations_from = 0}});
  all.push_back({"cpu_offload", {.cpu_offload = true}});
  all.push_back({"bf16", {.mixed_precision = {.param_dtype = torch::kBFloat16}}});
  return all;
}

void expect_same_bits_with_every_option(World& world, bool on_streams) {
  for (const auto& [name, options] : every_option(world)) {
    if (on_streams && options.cpu_offload) continue;  // its groups are others
    SCOPED_TRACE(name);
    Training training{.steps = 3, .micro_batches = world.size(), .clip = 0.05};
    training.param_dtype = options.mixed_precision.param_dtype;
    const auto make = [] { return testing_models::make_gpt(); };
    expect_same_bits(world, make, make, training, options, on_streams);
  }
}

TEST(ModelOnDevice, HasTheBitsOfOneProcessWithEveryOption) {
  for (int ranks : {1, 2})
    run_rank_processes(ranks, [](World& world) {
      expect_same_bits_with_every_option(world, false);
      if (world.size() == 2) expect_same_bits_with_every_option(world, true);
    });
}

// Full units in 16 bits of one rank. FullShard casts each into one of two buffers, from the same values.
TEST(ModelOnDevice, OfOneRankHasACopyInSixteenBitsOnlyWhereUnitsStayFull) {
  run_rank_processes(1, [](World& world) {
    const testing_models::OnDevice data_on_device(world.device());
    std::map<Strategy, testing_models::Weights> weights;
    for (const Strategy strategy : {Strategy::FullShard, Strategy::ShardOptimizer}) {
      const TestModel model = testing::on_device(testing_models::make_gpt(), world.device());
      ShardedModel sharded =
          shard(*model.module, world, {.strategy = strategy, .mixed_precision = {.param_dtype = torch::kBFloat16}});
      int64_t all = 0, largest = 0;
      for (const auto& unit : sharded.model().units()) {
        all += unit->layout.full_numel();
        largest = std::max(largest, unit->layout.full_numel());
      }
      testing_models::train(model, sharded, world, {.steps = 3, .micro_batches = 2});
      const bool casts = strategy == Strategy::FullShard;
      EXPECT_EQ(sharded.memory().parameter_bytes, all * (casts ? 4 : 6));
      EXPECT_EQ(sharded.memory().full_parameter_bytes, casts ? 2 * largest * 2 : 0);
      weights[strategy] = testing_models::whole_weights(*model.module, sharded);
    }
    EXPECT_THAT(testing_models::differences(weights[Strategy::FullShard], weights[Strategy::ShardOptimizer]),
                IsEmpty());
  });
}

// The property test, on the device. It has no files of shards and no moments in 8 bits.
property::RandomCase random_case_on_device(uint64_t seed) {
  property::RandomCase drawn = property::make_random_case(seed);
  if (drawn.training.state_dtype == StateDtype::Block8) drawn.training.state_dtype = StateDtype::Float32;
  drawn.options.offload_activations = drawn.offloads_activations;
  drawn.options.offload_activations_from = 0;
  return drawn;
}

std::vector<uint64_t> seeds_of(int ranks, size_t count) {
  std::vector<uint64_t> seeds;
  for (uint64_t seed = 0; seed < property::number_of_cases() && seeds.size() < count; seed += 3)
    if (property::cell_of(seed).ranks == ranks) seeds.push_back(seed);
  return seeds;
}

void expect_same_bits_of_random_models(World& world, bool on_streams) {
  for (const uint64_t seed : seeds_of(world.size(), 4)) {
    property::RandomCase drawn = random_case_on_device(seed);
    if (on_streams) drawn.training.micro_batches = world.size();
    SCOPED_TRACE(drawn.words);
    expect_same_bits(
        world, [&] { return drawn.make_on_ranks(world.rank()).model; }, [&] { return drawn.make_unsharded().model; },
        drawn.training, drawn.options, on_streams);
  }
}

TEST(RandomModelOnDevice, HasTheBitsOfOneProcess) {
  for (int ranks : {1, 2, 3})
    run_rank_processes(ranks, [](World& world) { expect_same_bits_of_random_models(world, false); });
}

TEST(RandomModelOnDevice, OnStreamsHasTheBitsOfOneProcess) {
  run_rank_processes(2, [](World& world) { expect_same_bits_of_random_models(world, true); });
}

}  // namespace
}  // namespace fsdp
