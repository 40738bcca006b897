// Parameters that do not train: some of a unit, whole units, until later, and adapters beside them.
#include <gmock/gmock.h>

#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using testing_models::expect_same_bits;
using testing_models::TestModel;
using testing_models::Training;
using torch::Tensor;

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
    const Training training{.micro_batches = 2 * world.size(), .clip = 0.1};
    const auto report = expect_same_bits(gpt_with(prepare, training.micro_batches), world, training);
    EXPECT_EQ(report.late_gradients, 0);
  });
}

void freeze(torch::nn::Module& module, const std::function<bool(const std::string& name)>& frozen) {
  for (const auto& parameter : module.named_parameters()) {
    parameter.value().set_requires_grad(!frozen(parameter.key()));
  }
}

class Frozen : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Frozen, ::testing::Values(2, 3), ::testing::PrintToStringParamName());

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
      return (name.starts_with("blocks.0.") && step < 6) || (name.starts_with("blocks.1.") && step < 3);
    });
  });
}

// LoRA (Hu and others, https://arxiv.org/abs/2106.09685): y = W x + B A x, of which A and B train.
struct AdaptedImpl : torch::nn::Module {
  AdaptedImpl()
      : base(register_module("base", torch::nn::Linear(kWidth, kWidth))),
        down(register_parameter("down", torch::randn({kRank, kWidth}) / 8)),
        up(register_parameter("up", torch::zeros({kWidth, kRank}))) {
    for (auto& parameter : base->parameters()) parameter.set_requires_grad(false);
  }
  Tensor forward(const Tensor& x) {
    return x + torch::tanh(base->forward(x) + torch::linear(torch::linear(x, down), up));
  }

  static constexpr int64_t kWidth = 32, kRank = 2;
  torch::nn::Linear base;
  Tensor down, up;
};
TORCH_MODULE(Adapted);

TEST_P(Frozen, AllButAdapters) {
  run_ranks(GetParam(), [](World& world) {
    constexpr int64_t kBlocks = 4;
    const Training training{.micro_batches = 2 * world.size(), .clip = 0.1};
    const auto make = [] {
      torch::manual_seed(6);
      torch::nn::Sequential blocks;
      for (int64_t i = 0; i < kBlocks; ++i) blocks->push_back(Adapted());
      return TestModel{blocks.ptr(), [blocks](int64_t b) mutable {
                         return blocks->forward(testing_models::values_for(b, {3, AdaptedImpl::kWidth})).pow(2).mean();
                       }};
    };
    const auto report = expect_same_bits(make, world, training);
    EXPECT_EQ(report.reductions, training.steps * 2 * kBlocks);
  });
}

}  // namespace
}  // namespace fsdp
