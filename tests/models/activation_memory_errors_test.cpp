// Options::activation_memory is refused where it cannot be kept or nothing can keep it, and the errors say why.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <cstdint>

#include "models/budgeted_net.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp::activation_budgets {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ActivationBudget, BelowTheLeastIsAnErrorThatNamesIt) {
  run_ranks(2, [](World& world) {
    const Training training{.steps = 2, .micro_batches = world.size()};
    const int64_t least = least_of(decision_of({}, world, {.activation_memory = kPlenty}, training));
    decision_of({}, world, {.activation_memory = least}, training);
    const auto net = make_net();
    auto sharded = shard(*net, world, {.units = blocks_as_units(), .activation_memory = least - 1});
    EXPECT_THAT(message_of<Error>([&] { loss_of(*net, world.rank()).backward(); }),
                HasSubstr(fmt::format("found a budget of {} bytes, expected at least {}", least - 1, least)));
  });
}

TEST(ActivationBudget, IsForModulesWithBlocksThatRunAgain) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    const auto plain = make_net({.recomputed = false});
    EXPECT_THAT(message_of<Error>([&] { shard(*plain, world, {.activation_memory = 1000}); }),
                HasSubstr("has no Recomputed block"));
    EXPECT_THAT(message_of<Error>([&] { shard(*plain, world, {.activation_memory = -1}); }),
                HasSubstr("found activation_memory -1"));
    EXPECT_THAT(message_of<Error>([&] {
                  shard(*make_net(), world,
                        {.offload_directory = scratch.path(), .activation_memory = 1, .offload_activations = true});
                }),
                HasSubstr("for activations that stay in memory"));
    EXPECT_THAT(message_of<Error>([&] {
                  shard({NamedUnit{.name = "unit", .parameters = {{"weight", torch::ones({2})}}, .buffers = {}}}, world,
                        {.activation_memory = 1000});
                }),
                HasSubstr("which this model is not"));
    const auto net = make_net();
    net->blocks->at<RecomputedImpl<GptBlockImpl>>(1).set_recomputation({.keep = KeptResults::Products});
    EXPECT_THAT(message_of<Error>([&] { shard(*net, world, {.activation_memory = 1000}); }),
                AllOf(HasSubstr("block blocks.1"), HasSubstr("set_recomputation")));
    net->blocks->at<RecomputedImpl<GptBlockImpl>>(1).set_recomputation({});
    auto sharded = shard(*net, world, {.activation_memory = 1'000'000});
    EXPECT_FALSE(sharded.activation_decision().has_value());
    EXPECT_THAT(message_of<Error>([&] {
                  net->blocks->at<RecomputedImpl<GptBlockImpl>>(1).set_recomputation({.keep = KeptResults::All});
                }),
                HasSubstr("Options::activation_memory decides"));
  });
}

}  // namespace
}  // namespace fsdp::activation_budgets
