// Scopes in which parameters are whole.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_models::make_gpt;

TEST(FullParameters, ReadWhatIsShardedAndKeepWhatIsWritten) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt(), plain = make_gpt();
    auto sharded = shard(*model.module, world);
    const auto expected = plain.module->parameters();
    {
      FullParameters scope = sharded.full_parameters();
      torch::NoGradGuard no_grad;
      const auto found = model.module->parameters();
      for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(torch::equal(found[i], expected[i]));
      for (auto parameter : found) parameter.mul_(2);
      scope.close();
    }
    torch::NoGradGuard no_grad;
    for (auto parameter : expected) parameter.mul_(2);
    EXPECT_TRUE(torch::equal(model.loss(0), plain.loss(0)));
    FullParameters scope = sharded.full_parameters({.write_back = false});
    EXPECT_THAT(message_of([&] { model.module->parameters()[0].zero_(); }),
                AllOf(HasSubstr("write_back = false"), HasSubstr("lost")));
    scope.close();
    EXPECT_TRUE(torch::equal(model.loss(0), plain.loss(0)));
  });
}

// The scope would write its own values over them.
TEST(FullParameters, WhatWouldBeLostInsideIsRefused) {
  run_ranks(2, [](World& world) {
    const auto model = make_gpt(), plain = make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    model.loss(world.rank()).backward();
    FullParameters scope = sharded.full_parameters();
    EXPECT_THAT(message_of([&] { optimizer.step(); }), HasSubstr("Close the scope first"));
    EXPECT_THAT(message_of([&] { sharded.full_state(); }), HasSubstr("Close the scope first"));
    EXPECT_THAT(message_of([&] { save_checkpoint("nowhere", {.model = &sharded}); }),
                HasSubstr("Close the scope first"));
    scope.close();
    EXPECT_TRUE(torch::equal(model.loss(0), plain.loss(0)));
    optimizer.step();  // by the mean over the ranks, which the refused one left to be done
    testing_models::Unsharded whole(plain.module, {.micro_batches = 2, .lr = AdamWOptions().lr});
    for (int rank = 0; rank < 2; ++rank) whole.add([&] { return plain.loss(rank); });
    whole.step();
    const auto found = testing_models::whole_weights(*model.module, sharded);
    EXPECT_THAT(testing_models::differences(whole.weights(), found), ::testing::IsEmpty());
  });
}

TEST(FullParameters, AParameterThatIsGivenOtherMemoryInsideIsFoundAtTheEnd) {
  run_ranks(2, [](World& world) {
    const auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    FullParameters scope = sharded.full_parameters();
    torch::NoGradGuard no_grad;
    for (auto parameter : model.module->parameters()) parameter.set_data(parameter * 2);
    EXPECT_THAT(message_of([&] { scope.close(); }), HasSubstr("is no longer the tensor that was sharded"));
  });
}

TEST(FullParameters, OfSomeUnitsLeaveTheOthersSharded) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt(), plain = make_gpt();
    auto sharded = shard(*model.module, world);
    FullParameters scope = sharded.full_parameters({.units = {"blocks.1"}});
    auto found = model.module->named_parameters(), expected = plain.module->named_parameters();
    EXPECT_TRUE(torch::equal(found["blocks.1.up.weight"], expected["blocks.1.up.weight"]));
    EXPECT_THAT(message_of([&] { found["blocks.0.up.weight"].sum(); }),
                AllOf(HasSubstr("unit=blocks.0"), HasSubstr("leaves sharded")));
    scope.close();
    EXPECT_THAT(message_of([&] { sharded.full_parameters({.units = {"block.1"}}); }), HasSubstr("matches no unit"));
    EXPECT_TRUE(torch::equal(model.loss(0), plain.loss(0)));
  });
}

TEST(FullParameters, OfOneUnitOnRank0AloneAreWrittenThere) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt(), plain = make_gpt();
    auto sharded = shard(*model.module, world);
    FullParameters scope = sharded.full_parameters({.units = {"blocks.1"}, .rank0_only = true});
    torch::NoGradGuard no_grad;
    auto found = model.module->named_parameters(), expected = plain.module->named_parameters();
    if (world.rank() == 0) found["blocks.1.up.weight"].mul_(3);
    EXPECT_THAT(message_of([&] { found["blocks.0.up.weight"].sum(); }), HasSubstr("leaves sharded"));
    scope.close();
    expected["blocks.1.up.weight"].mul_(3);
    EXPECT_TRUE(torch::equal(model.loss(0), plain.loss(0)));
  });
}

TEST(FullParameters, OnRank0AloneAreReadAndWrittenThere) {
  for (int shard_group_size : {4, 2, 1}) {
    run_ranks(4, [=](World& world) {
      auto model = make_gpt(), plain = make_gpt();
      auto sharded =
          shard(*model.module, world, {.strategy = Strategy::HybridShard, .shard_group_size = shard_group_size});
      FullParameters scope = sharded.full_parameters({.rank0_only = true});
      torch::NoGradGuard no_grad;
      if (world.rank() == 0) {
        for (auto parameter : model.module->parameters()) parameter.mul_(3);
      } else {
        EXPECT_THAT(message_of([&] { model.module->parameters()[0].sum(); }), HasSubstr("every rank but 0"));
      }
      scope.close();
      for (auto parameter : plain.module->parameters()) parameter.mul_(3);
      EXPECT_TRUE(torch::equal(model.loss(0), plain.loss(0)));
    });
  }
}

}  // namespace
}  // namespace fsdp
