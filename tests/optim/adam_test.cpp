// Adam over shards does to each parameter what the kernel does to a whole one.
#include <gmock/gmock.h>

#include "optim/training.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::differences_after;
using testing_models::make_gpt;
using testing_models::make_two_linears;
using testing_models::WholeParameter;

class AdamOnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, AdamOnRanks, drawn<int>({3}, {1, 2}), ::testing::PrintToStringParamName());

TEST_P(AdamOnRanks, GroupsGiveTheBitsOfWholeParametersWithTheirSettings) {
  run_ranks(GetParam(), [](World& world) {
    auto optimizer = [](ShardedModel& sharded) {
      const AdamOptions options{.lr = 2e-2,
                                .weight_decay = 0.25,
                                .groups = {{.patterns = {"*.bias"}, .lr = 3e-3, .beta1 = 0.5, .eps = 1e-3}}};
      return std::make_unique<Adam>(sharded, options);
    };
    auto whole = [](WholeParameter& parameter) {
      const bool bias = parameter.name.ends_with(".bias");
      at::_fused_adam_({parameter.value}, {parameter.value.grad()}, {parameter.states[0]}, {parameter.states[1]}, {},
                       {parameter.steps}, bias ? 3e-3 : 2e-2, bias ? 0.5 : 0.9, 0.999, 0.25, bias ? 1e-3 : 1e-8, false,
                       false);
    };
    EXPECT_THAT(differences_after(
                    4, world, [] { return make_gpt(); }, optimizer, whole),
                IsEmpty());
    EXPECT_THAT(differences_after(3, world, make_two_linears, optimizer, whole), IsEmpty());
  });
}

TEST_P(AdamOnRanks, WhatItDoesNotKnowIsAnErrorThatNamesIt) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    EXPECT_THAT(message_of<Error>([&] { Adam adam(sharded, {.groups = {{.patterns = {"*.bias"}, .momentum = 0.5}}}); }),
                AllOf(HasSubstr("group of '*.bias' sets momentum"), HasSubstr("lr, beta1, beta2, eps, weight_decay")));
    EXPECT_THAT(message_of<Error>([&] { Adam adam(sharded, {.beta1 = 1}); }), HasSubstr("Adam: found beta1 1,"));
    EXPECT_EQ(sharded.memory().optimizer_bytes, 0);
  });
}

}  // namespace
}  // namespace fsdp
