// Gradients and values when a program leaves the usual order of a step, or is thrown out of it.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_models::make_gpt;

struct Thrown : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A backward that throws at the end of the graph, when most gradients have come.
void throw_in_backward(const testing_models::TestModel& model, int batch) {
  torch::Tensor loss = model.loss(batch);
  int calls = 0;
  const auto parameters = model.module->parameters();
  std::vector<unsigned> hooks;
  for (const torch::Tensor& parameter : parameters) {
    hooks.push_back(parameter.register_hook([&calls](const torch::Tensor&) {
      if (++calls == 5) throw Thrown("thrown in a hook");
    }));
  }
  EXPECT_THROW(loss.backward(), std::exception);
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].remove_hook(hooks[i]);
}

class StepOrder : public ::testing::TestWithParam<int> {};

TEST_P(StepOrder, SumsOfNoSyncThatABackwardTookAlongAreMissed) {
  run_ranks(GetParam(), [](World& world) {
    const auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded, {.lr = 1e-3});
    {
      const NoSync no_sync = sharded.no_sync();
      model.loss(0).backward();
    }
    throw_in_backward(model, 1);
    EXPECT_THAT(message_of([&] { optimizer.step(); }), AllOf(HasSubstr("no_sync()"), HasSubstr("zero_grad()")));
    EXPECT_THAT(message_of([&] { sharded.clip_grad_norm_(1.0); }), HasSubstr("no_sync()"));
    EXPECT_THAT(message_of([&] { model.loss(2).backward(); }), HasSubstr("no_sync()"));
    optimizer.zero_grad();
    model.loss(0).backward();
    optimizer.step();
  });
}

TEST_P(StepOrder, AGradientThatIsHeldOverZeroGradKeepsItsValues) {
  run_ranks(GetParam(), [](World& world) {
    const auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded, {.lr = 1e-3});
    model.loss(0).backward();
    std::vector<torch::Tensor> held, copies;
    for (const ShardedParameter& parameter : sharded.parameters()) {
      held.push_back(parameter.piece.grad());
      copies.push_back(held.back().clone());
    }
    optimizer.zero_grad();
    model.loss(1).backward();
    for (size_t i = 0; i < held.size(); ++i) EXPECT_TRUE(torch::equal(held[i].clone(), copies[i])) << i;
  });
}

TEST_P(StepOrder, AFullScopeThatAnExceptionLeavesWritesNothingBack) {
  run_ranks(GetParam(), [](World& world) {
    const auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    const NamedTensors before = sharded.full_state();
    try {
      FullParameters full = sharded.full_parameters();
      torch::NoGradGuard no_grad;
      model.module->parameters()[0].fill_(7);
      throw Thrown("half done");
    } catch (const Thrown&) {
    }
    const NamedTensors after = sharded.full_state();
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(torch::equal(before[i].second, after[i].second));
    model.loss(0).backward();  // the model goes on
  });
}

TEST_P(StepOrder, OtherMemoryForAParameterIsRefusedInsideAFullScope) {
  run_ranks(GetParam(), [](World& world) {
    const auto model = make_gpt(), other = make_gpt();
    auto sharded = shard(*model.module, world);
    {
      torch::NoGradGuard no_grad;
      for (torch::Tensor& parameter : other.module->parameters()) parameter.fill_(0.5);
    }
    std::stringstream file;
    torch::save(other.module, file);
    {
      FullParameters full = sharded.full_parameters();
      torch::NoGradGuard no_grad;
      const std::string refused = message_of([&] {
        auto same = model.module;
        torch::load(same, file);
      });
      EXPECT_THAT(refused, AllOf(HasSubstr("torch::load"), HasSubstr("copy_")));
      for (size_t i = 0; i < other.module->parameters().size(); ++i)
        model.module->parameters()[i].copy_(other.module->parameters()[i]);
    }
    for (const auto& [name, values] : sharded.full_state()) {
      if (!values.is_floating_point() || name.find("mask") != std::string::npos) continue;
      EXPECT_TRUE(torch::equal(values, torch::full_like(values, 0.5))) << name;
    }
  });
}

TEST_P(StepOrder, ChangesFromAHookOfABackwardAreRefused) {
  run_ranks(GetParam(), [](World& world) {
    const auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded, {.lr = 1e-3});
    torch::Tensor loss = model.loss(0);
    std::string in_hook;
    loss.register_hook([&](const torch::Tensor&) { in_hook = message_of([&] { optimizer.zero_grad(); }); });
    loss.backward();
    EXPECT_THAT(in_hook, HasSubstr("inside a backward"));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, StepOrder, ::testing::Values(1, 2));

}  // namespace
}  // namespace fsdp
