// Parameters that do not train: some of a unit, whole units, until later, and adapters beside them.
#include <gmock/gmock.h>

#include <chrono>

#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"
#include "support/unusual_models.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::run_ranks;
using fsdp::testing::run_ranks_to_end;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_models::expect_same_bits;
using testing_models::TestModel;
using testing_models::Training;

constexpr int kSteps = 4;

using Prepare = std::function<void(torch::nn::Module& module, int64_t step)>;

// The GPT of the other tests, prepared at the beginning of each step.
std::function<TestModel()> gpt_with(const Prepare& prepare, int64_t micro_batches) {
  return [=] {
    TestModel model = testing_models::make_gpt();
    prepare(*model.module, 0);
    return TestModel{model.module, [=](int64_t b) {
                       prepare(*model.module, b / micro_batches);
                       return model.loss(b);
                     }};
  };
}

void expect_same(int ranks, const Prepare& prepare) {
  run_ranks(ranks, [&](World& world) {
    const Training training{.steps = kSteps, .micro_batches = 2 * world.size(), .clip = 0.1};
    testing_models::Expected expected(gpt_with(prepare, training.micro_batches), training);
    for (const auto& [name, options] : testing_models::every_strategy(world.size())) {
      SCOPED_TRACE(name);
      const auto report = expect_same_bits(expected, world, options);
      EXPECT_EQ(report.late_gradients, 0);
    }
  });
}

void freeze(torch::nn::Module& module, const std::function<bool(const std::string& name)>& frozen) {
  for (const auto& parameter : module.named_parameters()) {
    parameter.value().set_requires_grad(!frozen(parameter.key()));
  }
}

class Frozen : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Frozen, drawn<int>({3}, {2, 4}), ::testing::PrintToStringParamName());

TEST_P(Frozen, ParametersOfAUnit) {
  expect_same(GetParam(), [](torch::nn::Module& module, int64_t) {
    freeze(module, [](const std::string& name) { return name.ends_with("qkv.weight") || name.ends_with("bias"); });
  });
}

TEST_P(Frozen, Units) {
  expect_same(GetParam(), [](torch::nn::Module& module, int64_t) {
    freeze(module, [](const std::string& name) { return name.starts_with("blocks.1.") || name.starts_with("tokens"); });
  });
}

TEST_P(Frozen, UnitsThatThawOneAfterAnother) {
  expect_same(GetParam(), [](torch::nn::Module& module, int64_t step) {
    freeze(module, [&](const std::string& name) {
      return (name.starts_with("blocks.0.") && step < 2) || (name.starts_with("blocks.1.") && step < 1);
    });
  });
}

TEST_P(Frozen, AllButAdapters) {
  run_ranks(GetParam(), [](World& world) {
    constexpr int64_t kBlocks = 4;
    const Training training{.steps = kSteps, .micro_batches = 2 * world.size(), .clip = 0.1};
    testing_models::Expected expected([] { return testing_models::make_adapters(kBlocks); }, training);
    for (const auto& [name, options] : testing_models::every_strategy(world.size())) {
      SCOPED_TRACE(name);
      const auto report = expect_same_bits(expected, world, options);
      EXPECT_EQ(report.reductions, training.steps * 2 * kBlocks);
    }
  });
}

// It decides where a peer's gradients lie. A rank may see the other end first, which has found it out.
TEST(FrozenOnOneRank, EndsTheJobWithAnErrorThatSaysSo) {
  const auto result =
      run_ranks_to_end(2,
                       [](World& world) {
                         const TestModel model = testing_models::make_gpt();
                         auto sharded = shard(*model.module, world);
                         model.loss(world.rank()).backward();
                         sharded.zero_grad();
                         if (world.rank() == 1)
                           model.module->named_parameters()["blocks.1.up.weight"].set_requires_grad(false);
                         model.loss(world.rank()).backward();
                       },
                       {.backend = "shm", .timeout = std::chrono::hours(1)});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, AllOf(HasSubstr("unit=blocks.1"), HasSubstr("frozen"), HasSubstr("trainable"),
                                   HasSubstr("Freeze and unfreeze the same parameters")));
}

// No rank's message takes the place of one that another expects: each finds out by what the others say they left out.
void expect_error_of_a_parameter_frozen_on_rank_1(World& world) {
  const TestModel model = testing_models::make_gpt();
  auto sharded = shard(*model.module, world);
  model.loss(world.rank()).backward();
  sharded.zero_grad();
  if (world.rank() == 1) model.module->named_parameters()["blocks.1.up.weight"].set_requires_grad(false);
  EXPECT_THAT(fsdp::testing::message_of<Error>([&] { model.loss(world.rank()).backward(); }),
              AllOf(HasSubstr("unit=blocks.1"), HasSubstr("rank"), HasSubstr("frozen"), HasSubstr("trainable"),
                    HasSubstr("Freeze and unfreeze the same parameters")));
  world.barrier();
}

TEST(FrozenOnOneRank, IsAnErrorOnEveryRankOverGloo) {
  for (int ranks : {2, 3}) run_ranks({ranks, "gloo"}, expect_error_of_a_parameter_frozen_on_rank_1);
}

TEST(FrozenOnOneRank, IsAnErrorOnEveryRankOfSeveralHosts) {
  fsdp::testing::run_on_hosts({}, expect_error_of_a_parameter_frozen_on_rank_1);
}

}  // namespace
}  // namespace fsdp
