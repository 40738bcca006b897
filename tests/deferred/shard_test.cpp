// A deferred module is sharded unit by unit, and trains to the bits of one that was constructed as always.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "deferred/constructions.h"
#include "support/allocated_memory.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::AllocatedMemory;
using fsdp::testing::Job;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace testing_models;
namespace nn = torch::nn;

class ShardOfDeferred : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, ShardOfDeferred,
                         fsdp::testing::drawn<Job>({{3, "shm"}, {2, "gloo"}}, {{1, "auto"}, {2, "shm"}}),
                         ::testing::PrintToStringParamName());

TEST_P(ShardOfDeferred, TrainsToTheBitsOfAnOrdinaryModelWithEveryStrategy) {
  run_ranks(GetParam(), [](World& world) {
    const Training training{.steps = 3, .micro_batches = 2 * world.size()};
    for (const ModelKind& kind : model_kinds()) {
      SCOPED_TRACE(kind.name);
      Expected expected(kind.make, training);
      for (const auto& [name, options] : every_strategy(world.size())) {
        SCOPED_TRACE(name);
        const TestModel model = deferred_init(kind.make);
        auto sharded = shard(*model.module, world, options);
        train(model, sharded, world, training);
        const Weights found = whole_weights(*model.module, sharded);
        if (world.rank() != 0) continue;
        EXPECT_THAT(differences(expected.weights(), found), IsEmpty());
      }
    }
  });
}

TEST_P(ShardOfDeferred, HasTheStateOfAnOrdinaryConstruction) {
  run_ranks(GetParam(), [](World& world) {
    for (const Construction& construction : constructions()) {
      SCOPED_TRACE(construction.name);
      torch::manual_seed(5);
      const auto expected = construction.make();
      const torch::Tensor state = generator_state();
      torch::manual_seed(5);
      const auto found = deferred_init(construction.make);
      auto sharded = shard(*found, world, {.sync_module_states = world.size() != 2});
      EXPECT_TRUE(torch::equal(generator_state(), state));
      const auto parameters = expected->named_parameters(), buffers = expected->named_buffers();
      for (const auto& [name, value] : sharded.full_state()) {
        const torch::Tensor& original = parameters.contains(name) ? parameters[name] : buffers[name];
        EXPECT_TRUE(torch::equal(value, original.detach().to(value.scalar_type()))) << name;
      }
    }
  });
}

TEST_P(ShardOfDeferred, SendsTheFirstRanksValues) {
  run_ranks(GetParam(), [](World& world) {
    torch::manual_seed(7);
    nn::Linear expected(9, 7);
    torch::manual_seed(7 + world.rank());
    auto found = deferred_init([] { return nn::Linear(9, 7); });
    auto sharded = shard(*found, world);
    EXPECT_TRUE(torch::equal(sharded.full_state()[0].second, expected->weight));
  });
}

constexpr int kLayers = 16;
constexpr int64_t kLayerWidth = 384, kUnitBytes = kLayerWidth * kLayerWidth * 4;

nn::Sequential make_blocks() {
  nn::Sequential blocks;
  for (int i = 0; i < kLayers; ++i)
    blocks->push_back(nn::Linear(nn::LinearOptions(kLayerWidth, kLayerWidth).bias(false)));
  for (auto& weight : blocks->parameters()) nn::init::normal_(weight, 0, 0.1);
  return blocks;
}

const Options kUnitsOfLinears{.units = units_of<nn::LinearImpl>()};

TEST(ShardOfDeferredMemory, HoldsOneUnitBesideTheShards) {
  run_ranks(Job{4, "gloo"}, [](World& world) {
    AllocatedMemory memory;
    auto blocks = deferred_init(make_blocks);
    auto sharded = shard(*blocks, world, kUnitsOfLinears);
    const int64_t shards = sharded.memory().parameter_bytes;
    EXPECT_EQ(shards, kLayers * kUnitBytes / world.size());
    // A unit, and a parameter that draws numbers which the second initialisation writes over.
    EXPECT_LT(memory.most_bytes(), shards + 2 * kUnitBytes + kUnitBytes / 2);
  });
}

TEST(ShardOfDeferredMemory, MakesAUnitWhereItIsSharded) {
  run_ranks(Job{1, "auto"}, [](World& world) {
    auto layer = deferred_init([] { return nn::Linear(nn::LinearOptions(kLayerWidth, kLayerWidth).bias(false)); });
    AllocatedMemory memory;
    auto sharded = shard(*layer, world);
    EXPECT_LT(memory.most_bytes(), 2 * kUnitBytes + kUnitBytes / 2);  // the shard and the unit
  });
}

class LoadOfDeferred : public ::testing::Test {
 protected:
  fsdp::testing::ScratchDirectory directory_;
};

Options without_values(Options options = {}) {
  options.initialise = false;
  return options;
}

TEST_F(LoadOfDeferred, FillsUnitsThatNeverWereWholeAndDrawsNothing) {
  run_ranks(2, [&](World& world) {
    const auto checkpoint = directory_.path() / "checkpoint", exported = directory_.path() / "exported";
    torch::manual_seed(1);
    auto saved = make_blocks();
    auto sharded_saved = shard(*saved, world, kUnitsOfLinears);
    save_checkpoint(checkpoint, {.model = &sharded_saved, .step = 3});
    save_pretrained(exported, sharded_saved);
    const NamedTensors expected = sharded_saved.full_state();
    for (const bool from_checkpoint : {true, false}) {
      SCOPED_TRACE(from_checkpoint);
      torch::manual_seed(2);
      const torch::Tensor before = generator_state();
      auto blocks = deferred_init(make_blocks);
      AllocatedMemory memory;
      auto sharded = shard(*blocks, world, without_values(kUnitsOfLinears));
      EXPECT_LT(memory.most_bytes(), sharded.memory().parameter_bytes + kUnitBytes / 2);
      if (from_checkpoint) {
        EXPECT_EQ(load_checkpoint(checkpoint, {.model = &sharded}), 3);
      } else {
        load_pretrained(exported, sharded);
      }
      EXPECT_TRUE(torch::equal(generator_state(), before));
      const NamedTensors found = sharded.full_state();
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(found[i].second, expected[i].second));
    }
  });
}

TEST_F(LoadOfDeferred, GivesTheRestTheValuesOfAnOrdinaryConstruction) {
  run_ranks(2, [&](World& world) {
    torch::manual_seed(1);
    auto saved = make_blocks();
    auto sharded_saved = shard(*saved, world, kUnitsOfLinears);
    PretrainedOptions some;
    some.absent = {"3.*", "1?.*"};
    save_pretrained(directory_.path() / "some", sharded_saved, some);
    const NamedTensors loaded = sharded_saved.full_state();
    torch::manual_seed(2);
    auto expected = make_blocks();
    const torch::Tensor state = generator_state();
    torch::manual_seed(2);
    auto blocks = deferred_init(make_blocks);
    auto sharded = shard(*blocks, world, without_values(kUnitsOfLinears));
    load_pretrained(directory_.path() / "some", sharded, some);
    EXPECT_TRUE(torch::equal(generator_state(), state));
    const NamedTensors found = sharded.full_state();
    const auto parameters = expected->parameters();
    for (size_t i = 0; i < found.size(); ++i) {
      const torch::Tensor& wanted = i == 3 || i >= 10 ? parameters[i] : loaded[i].second;
      EXPECT_TRUE(torch::equal(found[i].second, wanted)) << found[i].first;
    }
  });
}

TEST_F(LoadOfDeferred, InitialiseGivesValuesAfterwards) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(2);
    auto expected = make_blocks();
    torch::manual_seed(2 + world.rank());
    auto blocks = deferred_init(make_blocks);
    auto sharded = shard(*blocks, world, without_values(kUnitsOfLinears));
    sharded.initialise();
    sharded.initialise();  // nothing is left to do
    const NamedTensors found = sharded.full_state();
    const auto parameters = expected->parameters();
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(torch::equal(found[i].second, parameters[i]));
  });
}

TEST_F(LoadOfDeferred, RefusesEveryUseBefore) {
  run_ranks(2, [&](World& world) {
    auto blocks = deferred_init(make_blocks);
    auto sharded = shard(*blocks, world, without_values(kUnitsOfLinears));
    const auto says = AllOf(HasSubstr("before the parameters have values"), HasSubstr("sharded.initialise()"));
    EXPECT_THAT(message_of<Error>([&] { blocks->forward(torch::ones({2, kLayerWidth})); }), says);
    EXPECT_THAT(message_of<Error>([&] { sharded.full_state(); }), says);
    EXPECT_THAT(message_of<Error>([&] { sharded.full_parameters(); }), says);
    EXPECT_THAT(message_of<Error>([&] { save_checkpoint(directory_.path() / "none", {.model = &sharded}); }), says);
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(directory_.path() / "none", {.model = &sharded}); }),
                HasSubstr("none"));
    sharded.initialise();
    EXPECT_EQ(blocks->forward(torch::ones({2, kLayerWidth})).size(1), kLayerWidth);
  });
}

TEST_F(LoadOfDeferred, LeavesWhatIsIgnoredRealAndWhole) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(3);
    auto expected = make_blocks();
    torch::manual_seed(3);
    auto blocks = deferred_init(make_blocks);
    Options options = kUnitsOfLinears;
    options.ignored = {"5.*"};
    auto sharded = shard(*blocks, world, options);
    EXPECT_TRUE(torch::equal(blocks->parameters()[5], expected->parameters()[5]));
  });
}

}  // namespace
}  // namespace fsdp
