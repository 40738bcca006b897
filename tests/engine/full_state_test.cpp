// Whole state by name: on one rank alone, and carried to another number of ranks.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/models.h"
#include "support/oracle.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using ::testing::IsEmpty;
using testing_models::differences;
using testing_models::make_gpt;
using testing_models::TestModel;

TestModel make_with_buffers() { return testing_models::model_kinds()[2].make(); }  // BatchNorm's

constexpr testing_models::Training kTraining{.steps = 2, .micro_batches = 12};

TEST(FullState, OfRank0OnlyIsThatOfEveryRank) {
  run_ranks(3, [](World& world) {
    const TestModel model = make_with_buffers();
    auto sharded = shard(*model.module, world);
    testing_models::train(model, sharded, world, kTraining);
    const NamedTensors everywhere = sharded.full_state(), there = sharded.full_state({.rank0_only = true});
    EXPECT_EQ(there.size(), world.rank() == 0 ? everywhere.size() : 0);
    if (world.rank() == 0) {
      EXPECT_THAT(differences(everywhere, there), IsEmpty());
    }
  });
}

TEST(FullState, EndsWithTheBuffersWhichAreTheModulesOwn) {
  run_ranks(2, [](World& world) {
    const TestModel model = make_with_buffers();
    auto sharded = shard(*model.module, world);
    model.loss(world.rank());  // moves the running statistics
    const auto own = model.module->named_buffers();
    const NamedTensors& buffers = sharded.buffers();
    ASSERT_EQ(buffers.size(), own.size());
    const NamedTensors state = sharded.full_state();
    const size_t parameters = state.size() - buffers.size();
    for (size_t i = 0; i < buffers.size(); ++i) {
      const auto& [name, buffer] = buffers[i];
      EXPECT_TRUE(buffer.is_same(own[name])) << name;
      EXPECT_EQ(state[parameters + i].first, name);
      EXPECT_TRUE(torch::equal(state[parameters + i].second, buffer)) << name;
    }
    EXPECT_GT(buffers.size(), 0);
    EXPECT_FALSE(own["stages.0.norm.running_mean"].eq(0).all().item<bool>());
  });
}

void save(const NamedTensors& state, const std::filesystem::path& folder) {
  for (const auto& [name, tensor] : state) torch::save(tensor, folder / name);
}

torch::Tensor load(const std::string& name, const std::filesystem::path& folder) {
  torch::Tensor tensor;
  torch::load(tensor, folder / name);
  return tensor;
}

// Trained on three ranks, and written on two inside full_parameters.
TEST(FullState, OfThreeRanksGoesOnWithTwo) {
  const fsdp::testing::ScratchDirectory folder;
  run_ranks(3, [&](World& world) {
    const TestModel model = make_gpt();
    auto sharded = shard(*model.module, world);
    testing_models::train(model, sharded, world, kTraining);
    const NamedTensors state = sharded.full_state({.rank0_only = true});
    save(state, folder.path());
  });
  run_ranks(2, [&](World& world) {
    const TestModel model = make_gpt();
    auto sharded = shard(*model.module, world);
    FullParameters scope = sharded.full_parameters();
    {
      torch::NoGradGuard no_grad;
      for (auto& parameter : model.module->named_parameters()) {
        parameter.value().copy_(load(parameter.key(), folder.path()));
      }
    }
    scope.close();
    const auto trained = testing_models::train_unsharded(make_gpt(), kTraining);
    EXPECT_THAT(differences(trained, testing_models::whole_weights(*model.module, sharded)), IsEmpty());
  });
}

}  // namespace
}  // namespace fsdp
