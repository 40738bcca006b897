// Scripted modules: which units they have, and the bits of the same module unsharded.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "engine/model.h"
#include "support/run_ranks.h"
#include "support/scripted_model.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using ::testing::ElementsAre;
using testing_models::as_native;
using testing_models::make_scripted;
using testing_models::Training;
using testing_models::warm_up;

std::vector<std::string> units_of_model(const ShardedModel& sharded) {
  std::vector<std::string> names;
  for (const auto& unit : sharded.model().units()) names.push_back(unit->name);
  return names;
}

TEST(Scripted, BlocksOfAListAreUnitsAndATiedParameterGoesWhereItComesFirst) {
  run_ranks(1, [](World& world) {
    auto model = make_scripted();
    auto sharded = shard(model, world);
    EXPECT_THAT(units_of_model(sharded), ElementsAre("root", "blocks.0", "blocks.1", "blocks.2"));
    std::vector<std::string> names;
    for (const auto& parameter : sharded.parameters()) names.push_back(parameter.name);
    EXPECT_THAT(names, ElementsAre("input", "blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias",
                                   "blocks.2.weight", "blocks.2.bias"));
  });
}

TEST(Scripted, PoliciesSeeTheNamesOfItsClasses) {
  run_ranks(1, [](World& world) {
    auto model = make_scripted();
    const auto policy = units_by([](const std::string& name, const torch::nn::Module& module) {
      return module.name() == "Block" && name != "blocks.1";
    });
    auto sharded = shard(model, world, {.units = policy});
    EXPECT_THAT(units_of_model(sharded), ElementsAre("root", "blocks.0", "blocks.2"));
  });
}

TEST(Scripted, BlocksThatAreNotAllOfOneClassAreNoUnits) {
  run_ranks(1, [](World& world) {
    auto model = make_scripted();
    torch::jit::Module other("Other");
    other.register_parameter("weight", torch::ones({3}), false);
    model.attr("blocks").toModule().register_module("3", other);
    auto sharded = shard(model, world);
    EXPECT_THAT(units_of_model(sharded), ElementsAre("root"));
  });
}

// Warmed up in the dtype that it is trained in.
testing_models::Weights train_plain(const Training& training) {
  auto model = make_scripted();
  const auto plain = as_native(model);
  testing_models::Unsharded unsharded(plain.module, training);
  unsharded.add([&] {
    warm_up(model);
    return plain.loss(0);
  });
  unsharded.skip();
  for (int64_t step = 0; step < training.steps; ++step) {
    for (int64_t b = 0; b < training.micro_batches; ++b) {
      unsharded.add([&] { return plain.loss(step * training.micro_batches + b); });
    }
    unsharded.step();
  }
  return unsharded.weights();
}

TEST(Scripted, HasTheBitsOfTheSameModuleUnsharded) {
  run_ranks(2, [](World& world) {
    const Training training{.steps = 3, .micro_batches = 2, .clip = 0.1};
    auto model = make_scripted();
    const auto trained = as_native(model);
    auto sharded = shard(model, world);
    warm_up(model);
    sharded.zero_grad();
    const CommunicationReport before = sharded.communication();
    testing_models::train(trained, sharded, world, training);
    const CommunicationReport after = sharded.communication();
    // The tied parameter is gathered at both ends of the forward, the last block is still there in the backward.
    EXPECT_EQ(after.gathers - before.gathers, training.steps * (2 * testing_models::kScriptedBlocks + 1));
    EXPECT_EQ(after.foreseen_gathers - before.foreseen_gathers, after.gathers - before.gathers);
    EXPECT_EQ(after.reductions - before.reductions, training.steps * (testing_models::kScriptedBlocks + 1));
    EXPECT_EQ(after.late_gradients, before.late_gradients);
    const auto found = testing_models::whole_weights(*trained.module, sharded);
    EXPECT_THAT(testing_models::differences(train_plain(training), found), ::testing::IsEmpty());
  });
}

TEST(Scripted, HasTheSameBitsWithEveryStrategyAndInSixteenBits) {
  run_ranks(2, [](World& world) {
    for (const auto dtype : {std::optional<torch::ScalarType>(), std::optional(torch::kBFloat16)}) {
      for (auto [name, options] : testing_models::every_strategy(world.size())) {
        SCOPED_TRACE(name);
        const Training training{.steps = 3, .micro_batches = 2, .clip = 0.1, .param_dtype = dtype};
        options.mixed_precision.param_dtype = dtype;
        auto model = make_scripted();
        const auto trained = as_native(model);
        auto sharded = shard(model, world, options);
        warm_up(model);
        sharded.zero_grad();
        testing_models::train(trained, sharded, world, training);
        const auto found = testing_models::whole_weights(*trained.module, sharded);
        if (world.rank() != 0) continue;
        EXPECT_THAT(testing_models::differences(train_plain(training), found), ::testing::IsEmpty());
      }
    }
  });
}

}  // namespace
}  // namespace fsdp
