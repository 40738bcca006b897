// Tensors that mixed precision leaves in their own dtype: of modules with running statistics, or named by the user.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <torch/script.h>

#include "engine/model.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_models::values_for;
using torch::Tensor;

constexpr int64_t kFeatures = 4;

// bf16 parameters, and buffers that keep their dtype: by default, or because it is the one that is asked for.
const std::vector<MixedPrecision> kStatisticsStay = {
    {.param_dtype = torch::kBFloat16}, {.param_dtype = torch::kBFloat16, .buffer_dtype = torch::kFloat32}};

// A user's own batch norm.
struct OwnNormImpl : torch::nn::Module {
  OwnNormImpl()
      : weight(register_parameter("weight", torch::ones({kFeatures}))),
        bias(register_parameter("bias", torch::zeros({kFeatures}))),
        running_mean(register_buffer("running_mean", torch::zeros({kFeatures}))),
        running_var(register_buffer("running_var", torch::ones({kFeatures}))) {}
  Tensor forward(const Tensor& x) {
    return torch::batch_norm(x, weight, bias, running_mean, running_var, is_training(), 0.1, 1e-5, false);
  }
  Tensor weight, bias, running_mean, running_var;
};
TORCH_MODULE(OwnNorm);

template <typename Norm>
struct Linears : torch::nn::Module {
  explicit Linears(Norm made) : norm(register_module("norm", made)) {}
  Tensor forward(const Tensor& x) { return linear(norm(x)); }
  Norm norm;
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(kFeatures, 2));
};

Tensor input_of(World& world, int64_t run, at::IntArrayRef sizes) { return values_for(10 * world.rank() + run, sizes); }

// Runs both, and expects the statistics of the one that is not sharded.
template <typename Sharded, typename Plain>
void expect_statistics(Sharded& sharded, Plain& plain, World& world, at::IntArrayRef sizes) {
  for (int64_t run = 0; run < 3; ++run) {
    sharded.forward(input_of(world, run, sizes));
    plain.forward(input_of(world, run, sizes));
  }
  EXPECT_TRUE(torch::equal(sharded.running_mean, plain.running_mean));
  EXPECT_TRUE(torch::equal(sharded.running_var, plain.running_var));
  EXPECT_FALSE(torch::equal(plain.running_mean, torch::zeros({kFeatures})));
}

template <typename Norm>
void expect_statistics_below_a_root(const std::function<Norm()>& make, at::IntArrayRef sizes) {
  run_ranks(2, [&](World& world) {
    for (const MixedPrecision& precision : kStatisticsStay) {
      Linears<Norm> model(make());
      Norm plain = make();
      auto sharded = shard(model, world, {.mixed_precision = precision});
      EXPECT_EQ(model.linear->weight.scalar_type(), torch::kBFloat16);
      expect_statistics(*model.norm, *plain, world, sizes);
      EXPECT_EQ(model.norm->weight.scalar_type(), torch::kFloat32);
    }
  });
}

TEST(Kept, StatisticsOfABatchNorm) {
  expect_statistics_below_a_root<torch::nn::BatchNorm1d>([] { return torch::nn::BatchNorm1d(kFeatures); },
                                                         {5, kFeatures});
}

TEST(Kept, StatisticsOfAnInstanceNorm) {
  const auto make = [] {
    return torch::nn::InstanceNorm1d(
        torch::nn::InstanceNorm1dOptions(kFeatures).affine(true).track_running_stats(true));
  };
  expect_statistics_below_a_root<torch::nn::InstanceNorm1d>(make, {2, kFeatures, kFeatures});
}

TEST(Kept, StatisticsOfTheUsersOwnModules) {
  expect_statistics_below_a_root<OwnNorm>([] { return OwnNorm(); }, {5, kFeatures});
}

TEST(Kept, StatisticsOfAModuleThatIsShardedItself) {
  run_ranks(2, [](World& world) {
    for (const MixedPrecision& precision : kStatisticsStay) {
      torch::nn::BatchNorm1d model(kFeatures), plain(kFeatures);
      auto sharded = shard(*model, world, {.mixed_precision = precision});
      expect_statistics(*model, *plain, world, {5, kFeatures});
    }
  });
}

TEST(Kept, StatisticsOfUnitsGivenByHand) {
  run_ranks(2, [](World& world) {
    for (const MixedPrecision& precision : kStatisticsStay) {
      OwnNorm model, plain;
      const std::vector<NamedUnit> units{
          {"unit",
           {{"norm.weight", model->weight}, {"norm.bias", model->bias}},
           {{"norm.running_mean", model->running_mean}, {"norm.running_var", model->running_var}}}};
      auto sharded = shard(units, world, {.mixed_precision = precision});
      expect_statistics(*model, *plain, world, {5, kFeatures});
    }
  });
}

struct ScriptedNorm {
  explicit ScriptedNorm(const std::string& name) : module(name) {
    module.register_parameter("weight", torch::ones({kFeatures}, torch::requires_grad()), false);
    module.register_parameter("bias", torch::zeros({kFeatures}, torch::requires_grad()), false);
    module.register_buffer("running_mean", running_mean);
    module.register_buffer("running_var", running_var);
    module.define(
        "def forward(self, x):\n"
        "  return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var,\n"
        "                          True, 0.1, 1e-05, False)\n");
  }
  Tensor forward(const Tensor& x) { return module.forward({x}).toTensor(); }
  torch::jit::Module module;
  Tensor running_mean = torch::zeros({kFeatures}), running_var = torch::ones({kFeatures});
};

TEST(Kept, StatisticsOfAScriptedBatchNorm) {
  run_ranks(2, [](World& world) {
    for (const MixedPrecision& precision : kStatisticsStay) {
      ScriptedNorm norm("BatchNorm1d"), plain("Plain");
      torch::jit::Module model("Model");
      model.register_module("norm", norm.module);
      auto sharded = shard(model, world, {.mixed_precision = precision});
      expect_statistics(norm, plain, world, {5, kFeatures});
    }
  });
}

// Nothing tells of these, so the parameters are converted: an error, and not statistics that stand still.
TEST(Kept, StatisticsThatNobodyNamedAreAnErrorInTheForward) {
  run_ranks(1, [](World& world) {
    OwnNorm model;
    torch::nn::InstanceNorm1d instance(
        torch::nn::InstanceNorm1dOptions(kFeatures).affine(true).track_running_stats(true));
    const std::vector<NamedUnit> units{{"own", {{"a.weight", model->weight}, {"a.bias", model->bias}}, {}},
                                       {"instance", {{"b.weight", instance->weight}, {"b.bias", instance->bias}}, {}}};
    auto sharded = shard(units, world, {.mixed_precision = {.param_dtype = torch::kBFloat16}});
    const auto advice =
        AllOf(HasSubstr("found running statistics in Float"), HasSubstr("options.mixed_precision.keep"));
    EXPECT_THAT(message_of([&] { model(torch::ones({5, kFeatures})); }), AllOf(HasSubstr("unit=own"), advice));
    EXPECT_THAT(message_of([&] {
                  instance(torch::ones({2, kFeatures, 3}));
                }),
                AllOf(HasSubstr("unit=instance"), advice));
  });
}

TEST(Kept, NothingWhereStatisticsAreConvertedToo) {
  run_ranks(1, [](World& world) {
    Linears<torch::nn::BatchNorm1d> model{torch::nn::BatchNorm1d(kFeatures)};
    const MixedPrecision precision{.param_dtype = torch::kBFloat16, .buffer_dtype = torch::kBFloat16};
    auto sharded = shard(model, world, {.mixed_precision = precision});
    EXPECT_EQ(model.norm->weight.scalar_type(), torch::kBFloat16);
    EXPECT_EQ(model.norm->running_mean.scalar_type(), torch::kBFloat16);
  });
}

// Modules below one with statistics are converted.
TEST(Kept, OnlyTheModuleThatHasTheStatistics) {
  run_ranks(1, [](World& world) {
    torch::nn::Module model;
    torch::nn::Linear below(2, 2);
    const Tensor scale = model.register_parameter("scale", torch::ones({2}));
    model.register_module("below", below);
    model.register_buffer("running_mean", torch::zeros({2}));
    auto sharded = shard(model, world, {.mixed_precision = {.param_dtype = torch::kBFloat16}});
    EXPECT_EQ(scale.scalar_type(), torch::kFloat32);
    EXPECT_EQ(below->weight.scalar_type(), torch::kBFloat16);
  });
}

TEST(Kept, ParametersAndBuffersByTheirOwnNames) {
  run_ranks(1, [](World& world) {
    torch::nn::Module model;
    const Tensor scale = model.register_parameter("scale", torch::ones({2}));
    const Tensor shift = model.register_parameter("shift", torch::ones({2}));
    const Tensor table = model.register_buffer("table", torch::ones({2}));
    const MixedPrecision precision{
        .param_dtype = torch::kBFloat16, .buffer_dtype = torch::kBFloat16, .keep = {"scale", "table"}};
    auto sharded = shard(model, world, {.mixed_precision = precision});
    EXPECT_EQ(scale.scalar_type(), torch::kFloat32);
    EXPECT_EQ(shift.scalar_type(), torch::kBFloat16);
    EXPECT_EQ(table.scalar_type(), torch::kFloat32);
  });
}

TEST(Kept, APatternThatMatchesNothingIsAnErrorThatNamesIt) {
  run_ranks(1, [](World& world) {
    torch::nn::Sequential model(torch::nn::Linear(3, 3));
    const MixedPrecision precision{.param_dtype = torch::kBFloat16, .keep = {"0", "1"}};
    EXPECT_THAT(message_of([&] { shard(*model, world, {.mixed_precision = precision}); }),
                HasSubstr("the pattern '1' in options.mixed_precision.keep matches no"));
  });
}

}  // namespace
}  // namespace fsdp
