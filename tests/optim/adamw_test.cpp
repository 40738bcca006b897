// AdamW over shards does to each parameter what the kernel does to a whole one; clipping sees the whole gradient.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "optim/norm.h"
#include "optim/training.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/oracle.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::differences;
using testing_models::differences_after;
using testing_models::kMicroBatches;
using testing_models::make_gpt;
using testing_models::make_two_linears;
using testing_models::run_backward;
using testing_models::run_whole_backward;
using testing_models::TestModel;
using testing_models::Weights;
using testing_models::weights_of;
using testing_models::whole_weights;
using testing_models::WholeOptimizer;
using testing_models::WholeParameter;
using testing_models::WholeUpdate;

struct Settings {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
};

// The kernel on one whole parameter.
WholeUpdate whole_adamw(std::function<Settings(const std::string&)> settings_of) {
  return [=](WholeParameter& parameter) {
    const Settings with = settings_of(parameter.name);
    at::_fused_adamw_({parameter.value}, {parameter.value.grad()}, {parameter.states[0]}, {parameter.states[1]}, {},
                      {parameter.steps}, with.lr, with.beta1, with.beta2, with.weight_decay, with.eps, false, false);
  };
}

class AdamWOnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, AdamWOnRanks, ::testing::Values(1, 2), ::testing::PrintToStringParamName());

class ClippingOnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ClippingOnRanks, ::testing::Values(1, 2), ::testing::PrintToStringParamName());

TEST_P(AdamWOnRanks, ValuesOutOfRangeAreErrorsThatNameThem) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    auto refused = [&](const AdamWOptions& options) {
      return message_of<Error>([&] { AdamW optimizer(sharded, options); });
    };
    EXPECT_THAT(refused({.lr = -1.5}), HasSubstr("lr -1.5"));
    EXPECT_THAT(refused({.lr = std::numeric_limits<double>::infinity()}), HasSubstr("lr inf"));
    EXPECT_THAT(refused({.beta1 = 1}), HasSubstr("beta1 1,"));
    EXPECT_THAT(refused({.beta1 = -0.5}), HasSubstr("beta1 -0.5"));
    EXPECT_THAT(refused({.beta2 = 1}), HasSubstr("beta2 1,"));
    EXPECT_THAT(refused({.beta2 = -0.5}), HasSubstr("beta2 -0.5"));
    EXPECT_THAT(refused({.eps = -0.25}), HasSubstr("eps -0.25"));
    EXPECT_THAT(refused({.weight_decay = -0.125}), HasSubstr("weight_decay -0.125"));
    EXPECT_EQ(refused({.lr = 0, .beta1 = 0, .beta2 = 0, .eps = 0, .weight_decay = 0}), "no error");
  });
}

TEST_P(AdamWOnRanks, ValuesOutOfRangeInAGroupAreErrorsThatNameThem) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    auto refused = [&](const ParameterGroup& group) {
      return message_of<Error>([&] { AdamW optimizer(sharded, {.groups = {{.patterns = {"tokens.*"}}, group}}); });
    };
    EXPECT_THAT(refused({.patterns = {"*"}, .lr = -1.5}), HasSubstr("lr -1.5"));
    EXPECT_THAT(refused({.patterns = {"*"}, .beta1 = 1}), HasSubstr("beta1 1,"));
    EXPECT_THAT(refused({.patterns = {"*"}, .beta2 = -0.5}), HasSubstr("beta2 -0.5"));
    EXPECT_THAT(refused({.patterns = {"*"}, .eps = -0.25}), HasSubstr("eps -0.25"));
    EXPECT_THAT(refused({.patterns = {"*"}, .weight_decay = -0.125}), HasSubstr("weight_decay -0.125"));
    EXPECT_EQ(refused({.patterns = {"*"}}), "no error");
  });
}

TEST_P(AdamWOnRanks, APatternThatMatchesNothingIsAnErrorThatNamesIt) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    auto refused = [&](const ParameterGroup& group) {
      return message_of<Error>([&] { AdamW optimizer(sharded, {.groups = {group}}); });
    };
    EXPECT_THAT(refused({.patterns = {"*.bias", "blocks.9.*"}}),
                AllOf(HasSubstr("'blocks.9.*' matches no parameter"), HasSubstr("'tokens.weight'")));
    EXPECT_THAT(refused({.patterns = {"bias"}}), HasSubstr("'bias' matches no parameter"));
    EXPECT_THAT(refused({.patterns = {}, .lr = 0.5}), HasSubstr("a group has no patterns"));
    EXPECT_EQ(refused({.patterns = {"*.bias", "blocks.?.*"}}), "no error");
  });
}

TEST_P(AdamWOnRanks, CountsTheStateOfAnOptimizerWhileItLives) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    int64_t bytes = 0;
    for (const auto& piece : sharded.shards()) bytes += 2 * static_cast<int64_t>(piece.nbytes());
    {
      AdamW optimizer(sharded);
      EXPECT_EQ(sharded.memory().optimizer_bytes, bytes);
    }
    EXPECT_EQ(sharded.memory().optimizer_bytes, 0);
  });
}

TEST_P(AdamWOnRanks, CountsNoStateOfAnOptimizerThatWasRefused) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    EXPECT_THROW(AdamW(sharded, {.lr = -1}), Error);
    EXPECT_EQ(sharded.memory().optimizer_bytes, 0);
  });
}

// The settings of the next test's groups, without patterns.
Settings settings_by_name(const std::string& name) {
  if (name.ends_with(".bias")) return {.lr = 3e-3, .beta1 = 0.5, .weight_decay = 0};
  if (name.starts_with("blocks.")) return {.lr = 2e-2, .beta2 = 0.75, .eps = 1e-3, .weight_decay = 0.5};
  return {.lr = 2e-2, .weight_decay = 0.25};
}

TEST_P(AdamWOnRanks, GroupsGiveTheBitsOfWholeParametersWithTheirSettings) {
  run_ranks(GetParam(), [](World& world) {
    auto optimizer = [](ShardedModel& sharded) {
      const AdamWOptions options{
          .lr = 2e-2,
          .weight_decay = 0.25,
          .groups = {{.patterns = {"*.bias"}, .lr = 3e-3, .beta1 = 0.5, .weight_decay = 0},
                     {.patterns = {"blocks.*"}, .beta2 = 0.75, .eps = 1e-3, .weight_decay = 0.5}}};
      return std::make_unique<AdamW>(sharded, options);
    };
    auto gpt = [] { return make_gpt(); };
    EXPECT_THAT(differences_after(4, world, gpt, optimizer, whole_adamw(settings_by_name)), IsEmpty());
  });
}

TEST_P(AdamWOnRanks, AParameterUnusedInAStepKeepsItsValueAndItsStepCount) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_two_linears(), whole = make_two_linears();
    auto sharded = shard(*model.module, world);
    sharded.set_gradient_divisor(kMicroBatches);
    AdamW optimizer(sharded, {.lr = 0.1});
    WholeOptimizer reference(*whole.module, whole_adamw([](const std::string&) { return Settings{.lr = 0.1}; }));
    const std::vector<std::string> always{"always.weight", "always.bias"};
    const std::vector<std::string> both{"always.weight", "always.bias", "sometimes.weight", "sometimes.bias"};
    for (int step = 0; step < 3; ++step) {
      const Weights before = whole_weights(*model.module, sharded);
      run_backward(model, step, world);
      optimizer.step();
      optimizer.zero_grad();
      run_whole_backward(whole, step);
      reference.step();
      const Weights after = whole_weights(*model.module, sharded);
      EXPECT_EQ(differences(before, after), step == 1 ? always : both) << "step " << step;
      EXPECT_THAT(differences(weights_of(*whole.module), after), IsEmpty()) << "step " << step;
    }
    const auto counts = optimizer.state().scalars.at(0);
    EXPECT_EQ(counts.name, "step");
    for (size_t i = 0; i < both.size(); ++i) {
      EXPECT_EQ(counts.tensors[i].item<float>(), sharded.parameters()[i].name.starts_with("always.") ? 3 : 2);
    }
  });
}

TEST_P(AdamWOnRanks, SetLrHoldsFromTheNextStepOn) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt(), whole = make_gpt();
    auto sharded = shard(*model.module, world);
    sharded.set_gradient_divisor(kMicroBatches);
    AdamW optimizer(sharded, {.lr = 1e-2, .groups = {{.patterns = {"norm.*"}, .lr = 5e-2}}});
    double current = 0;
    WholeOptimizer reference(*whole.module, whole_adamw([&](const std::string& name) {
      return Settings{.lr = name.starts_with("norm.") ? 5e-2 : current};
    }));
    for (double lr : {1e-2, 3e-2, 0.0, 2e-2}) {
      const int step = static_cast<int>(lr * 1000);
      optimizer.set_lr(lr);
      current = lr;
      run_backward(model, step, world);
      optimizer.step();
      optimizer.zero_grad();
      run_whole_backward(whole, step);
      reference.step();
      EXPECT_THAT(differences(weights_of(*whole.module), whole_weights(*model.module, sharded)), IsEmpty()) << lr;
    }
  });
}

TEST_P(AdamWOnRanks, SetLrRefusesANegativeRateAndKeepsTheOldOne) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt(), other = make_gpt();
    auto sharded = shard(*model.module, world), expected = shard(*other.module, world);
    AdamW optimizer(sharded, {.lr = 0.01}), unchanged(expected, {.lr = 0.01});
    EXPECT_THAT(message_of<Error>([&] { optimizer.set_lr(-0.5); }), HasSubstr("lr -0.5"));
    EXPECT_THAT(message_of<Error>([&] { optimizer.set_lr(std::nan("")); }), HasSubstr("lr nan"));
    run_backward(model, 0, world);
    optimizer.step();
    run_backward(other, 0, world);
    unchanged.step();
    EXPECT_THAT(differences(whole_weights(*other.module, expected), whole_weights(*model.module, sharded)), IsEmpty());
  });
}

double whole_norm(const TestModel& model, double norm_type) {
  optim::NormSum norm(norm_type);
  for (const auto& parameter : model.module->parameters()) {
    const torch::Tensor gradient = parameter.grad().contiguous();
    norm.add({gradient.const_data_ptr<float>(), static_cast<size_t>(gradient.numel())});
  }
  return norm.norm();
}

TEST_P(ClippingOnRanks, ReturnsTheNormOfTheWholeGradients) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt(), whole = make_gpt();
    auto sharded = shard(*model.module, world);
    sharded.set_gradient_divisor(kMicroBatches);
    run_backward(model, 0, world);
    run_whole_backward(whole, 0);
    for (double norm_type : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
      const double expected = whole_norm(whole, norm_type);
      EXPECT_GT(expected, 0);
      EXPECT_EQ(sharded.clip_grad_norm_(1e9, norm_type), expected) << norm_type;
    }
    EXPECT_EQ(sharded.clip_grad_norm_(1e9), whole_norm(whole, 2));
  });
}

TEST_P(ClippingOnRanks, ScalesTheGradientsToTheLargestNormAllowed) {
  for (double norm_type : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
    run_ranks(GetParam(), [&](World& world) {
      auto model = make_gpt(), whole = make_gpt();
      auto sharded = shard(*model.module, world);
      sharded.set_gradient_divisor(kMicroBatches);
      run_backward(model, 0, world);
      run_whole_backward(whole, 0);
      const double expected = whole_norm(whole, norm_type);
      EXPECT_EQ(sharded.clip_grad_norm_(expected / 4, norm_type), expected) << norm_type;
      const float factor = static_cast<float>(expected / 4 / (expected + 1e-6));
      for (const auto& parameter : whole.module->parameters()) parameter.mutable_grad().mul_(factor);
      EXPECT_EQ(sharded.clip_grad_norm_(1e9, norm_type), whole_norm(whole, norm_type)) << norm_type;
    });
  }
}

// As torch.nn.utils.clip_grad_norm_ does.
TEST_P(ClippingOnRanks, ToANormOfZeroMakesTheGradientsZero) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    run_backward(model, 0, world);
    EXPECT_GT(sharded.clip_grad_norm_(0), 0);
    for (const torch::Tensor& piece : sharded.shards()) EXPECT_FALSE(piece.grad().any().item<bool>());
    EXPECT_EQ(sharded.clip_grad_norm_(0), 0);
  });
}

TEST_P(ClippingOnRanks, RefusesNormsThatCannotBeAndLeavesTheGradients) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    run_backward(model, 0, world);
    const double norm = sharded.clip_grad_norm_(1e9);
    auto refused = [&](double max_norm, double norm_type) {
      return message_of<Error>([&] { sharded.clip_grad_norm_(max_norm, norm_type); });
    };
    EXPECT_THAT(refused(-1.5, 2), HasSubstr("max_norm -1.5"));
    EXPECT_THAT(refused(std::nan(""), 2), HasSubstr("max_norm nan"));
    EXPECT_THAT(refused(1, 0), HasSubstr("norm_type 0,"));
    EXPECT_THAT(refused(1, -2.5), HasSubstr("norm_type -2.5"));
    EXPECT_THAT(refused(1, std::nan("")), HasSubstr("norm_type nan"));
    EXPECT_EQ(sharded.clip_grad_norm_(1e9), norm);
  });
}

}  // namespace
}  // namespace fsdp
