// SGD over shards does to each parameter what the kernel does to a whole one, and begins as PyTorch's does.
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
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::differences_after;
using testing_models::make_gpt;
using testing_models::make_two_linears;
using testing_models::MakeOptimizer;
using testing_models::run_backward;
using testing_models::TestModel;
using testing_models::WholeParameter;
using testing_models::WholeUpdate;

class SGDOnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SGDOnRanks, drawn<int>({3}, {1, 2}), ::testing::PrintToStringParamName());

MakeOptimizer sgd(const SGDOptions& options) {
  return [=](ShardedModel& sharded) { return std::make_unique<SGD>(sharded, options); };
}

// The kernel on one whole parameter; biases have the settings of their own.
WholeUpdate whole_sgd(const SGDOptions& options, double lr_of_biases, double momentum_of_biases) {
  return [=](WholeParameter& parameter) {
    const bool bias = parameter.name.ends_with(".bias");
    const double momentum = bias ? momentum_of_biases : options.momentum;
    std::vector<torch::Tensor> buffers;
    if (momentum != 0) buffers.push_back(parameter.states[0]);
    at::_fused_sgd_({parameter.value}, {parameter.value.grad()}, buffers, options.weight_decay, momentum,
                    bias ? lr_of_biases : options.lr, options.dampening, options.nesterov && momentum != 0, false,
                    parameter.steps.item<float>() == 1);
  };
}

TEST_P(SGDOnRanks, GivesTheBitsOfWholeParameters) {
  run_ranks(GetParam(), [](World& world) {
    auto gpt = [] { return make_gpt(); };
    const std::vector<SGDOptions> kinds = {{.lr = 0.1},
                                           {.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.125},
                                           {.lr = 0.1, .momentum = 0.75, .weight_decay = 0.125, .nesterov = true}};
    for (const SGDOptions& options : kinds) {
      const WholeUpdate whole = whole_sgd(options, options.lr, options.momentum);
      EXPECT_THAT(differences_after(4, world, gpt, sgd(options), whole), IsEmpty());
      EXPECT_THAT(differences_after(3, world, make_two_linears, sgd(options), whole), IsEmpty());
    }
  });
}

TEST_P(SGDOnRanks, GroupsGiveTheBitsOfWholeParametersWithTheirSettings) {
  run_ranks(GetParam(), [](World& world) {
    SGDOptions options{.lr = 0.1, .momentum = 0.9, .dampening = 0.25};
    const WholeUpdate whole = whole_sgd(options, 0.05, 0);
    options.groups = {{.patterns = {"*.bias"}, .lr = 0.05, .momentum = 0}};
    EXPECT_THAT(differences_after(3, world, make_two_linears, sgd(options), whole), IsEmpty());
  });
}

// Whose second layer is first used in step 1.
TestModel make_two_linears_used_late() {
  TestModel model = make_two_linears();
  return {model.module, [loss = model.loss](int64_t b) {
            return loss(b < testing_models::kMicroBatches ? b + testing_models::kMicroBatches
                                                          : b % testing_models::kMicroBatches);
          }};
}

TEST_P(SGDOnRanks, TheMomentumOfAParameterBeginsAsItsFirstGradientWheneverThatComes) {
  run_ranks(GetParam(), [](World& world) {
    const SGDOptions options{.lr = 0.1, .momentum = 0.9, .dampening = 0.5};
    EXPECT_THAT(differences_after(3, world, make_two_linears_used_late, sgd(options), whole_sgd(options, 0.1, 0.9)),
                IsEmpty());
    auto model = make_two_linears_used_late();
    auto sharded = shard(*model.module, world);
    SGD optimizer(sharded, options);
    for (int step = 0; step < 2; ++step) {
      run_backward(model, step, world);
      optimizer.step();
      const auto momenta = optimizer.state().elements.at(0);
      for (size_t i = 0; i < sharded.parameters().size(); ++i) {
        const bool late = sharded.parameters()[i].name.starts_with("sometimes.");
        const torch::Tensor& piece = sharded.parameters()[i].piece;
        if (late != (step == 1)) continue;
        EXPECT_TRUE(torch::equal(momenta.tensors[i], piece.grad())) << "step " << step << " parameter " << i;
      }
      optimizer.zero_grad();
    }
  });
}

TEST_P(SGDOnRanks, KeepsStateOnlyForAMomentum) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    int64_t bytes = 0;
    for (const auto& piece : sharded.shards()) bytes += static_cast<int64_t>(piece.nbytes());
    const SGD plain(sharded);
    EXPECT_EQ(sharded.memory().optimizer_bytes, 0);
    const SGD other(sharded, {.groups = {{.patterns = {"*.bias"}, .momentum = 0.5}}});
    EXPECT_EQ(sharded.memory().optimizer_bytes, bytes);
  });
}

TEST_P(SGDOnRanks, SettingsThatCannotBeAreErrorsThatNameThem) {
  run_ranks(GetParam(), [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    auto refused = [&](const SGDOptions& options) { return message_of<Error>([&] { SGD one(sharded, options); }); };
    EXPECT_THAT(refused({.momentum = 1}), HasSubstr("momentum 1,"));
    EXPECT_THAT(refused({.dampening = -0.5}), HasSubstr("dampening -0.5"));
    EXPECT_THAT(refused({.nesterov = true}), HasSubstr("momentum 0 "));
    EXPECT_THAT(refused({.momentum = 0.5, .dampening = 0.25, .nesterov = true}), HasSubstr("dampening 0.25"));
    EXPECT_THAT(refused({.momentum = 0.5, .nesterov = true, .groups = {{.patterns = {"*.bias"}, .momentum = 0}}}),
                HasSubstr("momentum 0 "));
    EXPECT_THAT(refused({.groups = {{.patterns = {"*.bias"}, .beta1 = 0.5}}}), HasSubstr("sets beta1"));
    EXPECT_EQ(refused({.momentum = 0.5, .nesterov = true}), "no error");
  });
}

}  // namespace
}  // namespace fsdp
