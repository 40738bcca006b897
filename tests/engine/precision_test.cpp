// Mixed precision: 16-bit full parameters and gradients on the wire, fp32 shards, sums and optimizer.
#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "engine/model.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"
#include "support/unusual_models.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::expect_same_bits;
using testing_models::Expected;
using testing_models::make_gpt;
using testing_models::TestModel;
using testing_models::Training;

class Precision : public ::testing::TestWithParam<int> {};

TEST_P(Precision, OfSixteenBitsGivesTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    for (auto dtype : {torch::kBFloat16, torch::kHalf}) {
      Expected expected([] { return make_gpt(); },
                        {.steps = 4, .micro_batches = 2 * world.size(), .clip = 0.05, .param_dtype = dtype});
      for (Strategy strategy : {Strategy::FullShard, Strategy::ShardGradOp, Strategy::NoShard}) {
        expect_same_bits(expected, world, {.strategy = strategy, .mixed_precision = {.param_dtype = dtype}});
      }
    }
  });
}

// `full_state` is of the fp32 shards, `full_parameters` of what is gathered.
void expect_gathers_the_shards(const TestModel& model, ShardedModel& sharded) {
  const NamedTensors list = sharded.full_state();
  const std::map<std::string, torch::Tensor> state(list.begin(), list.end());
  auto scope = sharded.full_parameters({.write_back = false});
  for (const auto& parameter : model.module->named_parameters()) {
    const auto one = state.find(parameter.key());
    if (one == state.end()) continue;  // tied: there by another name
    const torch::Tensor full = parameter.value().detach();
    EXPECT_TRUE(torch::equal(full, one->second.to(full.scalar_type()))) << parameter.key();
  }
  scope.close();
}

template <typename Kind, typename Settings>
void expect_steps_gather_the_shards(World& world, const std::function<TestModel()>& make, const Settings& settings) {
  const TestModel model = make();
  auto sharded = shard(*model.module, world, {.mixed_precision = {.param_dtype = torch::kBFloat16}});
  Kind optimizer(sharded, settings);
  for (int step = 0; step < 3; ++step) {
    model.loss(step).backward();
    optimizer.step();
    optimizer.zero_grad();
    expect_gathers_the_shards(model, sharded);
  }
}

TEST_P(Precision, OfWhatIsGatheredAfterAStepIsTheShardsRounded) {
  run_ranks(GetParam(), [](World& world) {
    const auto gpt = [] { return make_gpt(); };
    const AdamWOptions groups{.lr = 1e-2, .groups = {{.patterns = {"*bias"}, .lr = 1e-3, .weight_decay = 0}}};
    expect_steps_gather_the_shards<AdamW>(world, gpt, groups);
    expect_steps_gather_the_shards<AdamW>(world, testing_models::make_unused_on_all_ranks, groups);
    expect_steps_gather_the_shards<SGD>(world, gpt, SGDOptions{.lr = 1e-2, .momentum = 0.9});
    expect_steps_gather_the_shards<Muon>(world, gpt, MuonOptions{.lr = 1e-2});
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Precision, drawn<int>({3}, {1, 2}), ::testing::PrintToStringParamName());

// The oracle has no wire: one rank is compared with two, and each rounds every micro-batch's gradient once.
std::string trained_with_a_narrow_wire(int ranks, Options options, torch::ScalarType dtype) {
  options.mixed_precision = {.param_dtype = dtype, .reduce_dtype = dtype};
  const std::string output =
      fsdp::testing::run_ranks_to_end(ranks, [&](World& world) {
        auto model = make_gpt();
        auto sharded = shard(*model.module, world, options);
        testing_models::train(model, sharded, world, {.steps = 4, .micro_batches = 4, .clip = 0.05});
        double sum = 0;
        for (const auto& [name, tensor] : sharded.full_state())
          sum += tensor.to(torch::kDouble).abs().sum().item<double>();
        if (world.rank() == 0) std::cout << fmt::format("weights {:.17g} end", sum) << std::endl;
      }).output;
  const size_t begin = output.find("weights");
  return begin == std::string::npos ? output : output.substr(begin, output.find(" end") - begin);
}

TEST(Precision, OfTheWireDoesNotDependOnTheNumberOfRanks) {
  std::vector<std::string> ones, others;  // all runs first: in a rank of one, those before it are empty
  for (auto dtype : {torch::kBFloat16, torch::kHalf}) {
    ones.push_back(trained_with_a_narrow_wire(1, {}, dtype));
    others.push_back(trained_with_a_narrow_wire(2, {}, dtype));
    others.push_back(trained_with_a_narrow_wire(2, {.strategy = Strategy::NoShard}, dtype));
    others.push_back(trained_with_a_narrow_wire(4, {.strategy = Strategy::HybridShard, .shard_group_size = 2}, dtype));
  }
  for (size_t i = 0; i < others.size(); ++i) {
    EXPECT_THAT(others[i], HasSubstr("weights"));
    EXPECT_EQ(others[i], ones[i / 3]);
  }
}

// An fp32 input meets 16-bit weights, and a norm that is kept in fp32 between them.
struct MixedImpl : torch::nn::Module {
  MixedImpl()
      : first(register_module("first", torch::nn::Linear(8, 16))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})))),
        second(register_module("second", torch::nn::Linear(16, 4))) {}
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::relu(norm(first(x)))); }
  torch::nn::Linear first;
  torch::nn::LayerNorm norm;
  torch::nn::Linear second;
};

torch::Tensor input(int64_t seed) { return torch::randn({5, 8}, torch::make_generator<at::CPUGeneratorImpl>(seed)); }

TEST(Precision, CastsActivationsWhereOperatorsNeedIt) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(5);
    auto model = std::make_shared<MixedImpl>();
    torch::manual_seed(5);
    auto plain = std::make_shared<MixedImpl>();
    auto sharded = shard(*model, world, {.mixed_precision = {.param_dtype = torch::kBFloat16, .keep = {"norm"}}});
    plain->first->to(torch::kBFloat16);
    plain->second->to(torch::kBFloat16);
    torch::Tensor x = input(world.rank()).requires_grad_(), y = input(world.rank()).requires_grad_();
    auto found = model->forward(x);
    auto expected = plain->second(
        torch::relu(plain->norm(plain->first(y.to(torch::kBFloat16)).to(torch::kFloat32))).to(torch::kBFloat16));
    EXPECT_EQ(found.scalar_type(), torch::kBFloat16);
    EXPECT_TRUE(torch::equal(found, expected));
    found.sum().backward();
    expected.sum().backward();
    EXPECT_EQ(x.grad().scalar_type(), torch::kFloat32);
    EXPECT_TRUE(torch::equal(x.grad(), y.grad()));
    EXPECT_EQ(model->norm->weight.scalar_type(), torch::kFloat32);
    EXPECT_EQ(model->first->weight.scalar_type(), torch::kBFloat16);
  });
}

// A model with equal values in each of its possible dtypes, and a buffer that takes part.
struct KeptImpl : torch::nn::Module {
  KeptImpl() {
    torch::manual_seed(6);
    mixed = register_module("mixed", std::make_shared<MixedImpl>());
    scale = register_buffer("scale", torch::full({8}, 1 + 1.0 / 4096));  // 1 in bf16
    torch::NoGradGuard no_grad;
    for (auto& parameter : parameters()) parameter.copy_(parameter.to(torch::kBFloat16));
  }
  // With the casts that the library makes by itself.
  torch::Tensor loss(int64_t b) {
    const auto like = [](const torch::Tensor& x, const torch::Tensor& weight) { return x.to(weight.scalar_type()); };
    torch::Tensor x = like(input(b) * scale, mixed->first->weight);
    x = mixed->norm(like(mixed->first(x), mixed->norm->weight));
    return mixed->second(like(torch::relu(x), mixed->second->weight)).to(torch::kFloat32).pow(2).mean();
  }
  std::shared_ptr<MixedImpl> mixed;
  torch::Tensor scale;
};

TestModel make_kept(bool converted) {
  auto model = std::make_shared<KeptImpl>();
  if (converted) {
    model->mixed->first->to(torch::kBFloat16);
    model->mixed->second->to(torch::kBFloat16);
    model->scale.set_data(model->scale.to(torch::kBFloat16));
  }
  return {model, [model](int64_t b) { return model->loss(b); }};
}

TEST(Precision, OfKeptModulesAndOfBuffersGivesTheBitsOfOneProcess) {
  const MixedPrecision precision{.param_dtype = torch::kBFloat16, .buffer_dtype = torch::kBFloat16, .keep = {"*norm"}};
  for (Strategy strategy : {Strategy::FullShard, Strategy::ShardOptimizer, Strategy::NoShard}) {
    run_ranks(2, [&](World& world) {
      const Training training{.steps = 4, .micro_batches = 4, .clip = 0.05};
      const TestModel model = make_kept(false);
      auto sharded = shard(*model.module, world, {.strategy = strategy, .mixed_precision = precision});
      EXPECT_EQ(sharded.buffers().at(0).second.scalar_type(), torch::kBFloat16);
      EXPECT_EQ(model.module->named_buffers()["scale"].scalar_type(), torch::kBFloat16);
      testing_models::train(model, sharded, world, training);
      EXPECT_THAT(testing_models::differences(testing_models::train_unsharded(make_kept(true), training),
                                              testing_models::whole_weights(*model.module, sharded)),
                  IsEmpty());
    });
  }
}

TEST(Precision, LeavesTheStatisticsOfBatchNormsInFp32) {
  run_ranks(2, [](World& world) {
    torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
    auto sharded = shard(*model, world, {.mixed_precision = {.param_dtype = torch::kBFloat16}});
    for (const auto& buffer : model->named_buffers()) {
      EXPECT_EQ(buffer.value().scalar_type(), buffer.key() == "1.num_batches_tracked" ? torch::kLong : torch::kFloat32);
    }
    EXPECT_EQ(model->named_parameters()["1.weight"].scalar_type(), torch::kFloat32);
    EXPECT_EQ(model->named_parameters()["0.weight"].scalar_type(), torch::kBFloat16);
  });
}

TEST(Precision, OfOtherDtypesIsAnErrorThatNamesTheOption) {
  run_ranks(1, [](World& world) {
    const auto refused = [&](const MixedPrecision& precision) {
      auto model = make_gpt();
      return message_of([&] { shard(*model.module, world, {.mixed_precision = precision}); });
    };
    EXPECT_THAT(refused({.param_dtype = torch::kInt}), HasSubstr("found mixed_precision.param_dtype Int, expected"));
    EXPECT_THAT(refused({.reduce_dtype = torch::kDouble}), HasSubstr("found mixed_precision.reduce_dtype Double"));
    EXPECT_THAT(refused({.buffer_dtype = torch::kDouble}), HasSubstr("found mixed_precision.buffer_dtype Double"));
  });
}

TEST(Precision, OfAutocastMustBeTheUnits) {
  run_ranks(1, [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, torch::kBFloat16);
    EXPECT_THAT(message_of([&] { model.loss(0); }), AllOf(HasSubstr("autocast"), HasSubstr("param_dtype")));
    at::autocast::set_autocast_enabled(at::kCPU, false);
    EXPECT_EQ(message_of([&] { model.loss(0); }), "no error");
  });
}

TEST(Precision, LeavesWhatNobodyWroteInFullParametersAsItIs) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world, {.mixed_precision = {.param_dtype = torch::kBFloat16}});
    const NamedTensors before = sharded.full_state();
    FullParameters scope = sharded.full_parameters();
    {
      torch::NoGradGuard no_grad;
      auto weight = model.module->named_parameters()["norm.weight"];
      EXPECT_EQ(weight.scalar_type(), torch::kBFloat16);
      weight.slice(0, 0, 3).fill_(7);
    }
    scope.close();
    for (const auto& [name, tensor] : sharded.full_state()) {
      const auto old = std::find_if(before.begin(), before.end(), [&](const auto& one) { return one.first == name; });
      torch::Tensor expected = old->second.clone();
      if (name == "norm.weight") expected.slice(0, 0, 3).fill_(7);
      EXPECT_TRUE(torch::equal(tensor, expected)) << name;
    }
  });
}

void expect_memory_by_dtype(World& world, bool shared) {
  auto model = testing_models::model_kinds()[1].make();
  auto sharded = shard(*model.module, world,
                       {.mixed_precision = {.param_dtype = torch::kBFloat16, .reduce_dtype = torch::kBFloat16}});
  model.loss(world.rank()).backward();
  int64_t shards = 0, largest = 0, sums = 0, gradients = 0, slices = 0;
  for (const auto& unit : sharded.model().units()) {
    shards += unit->layout.shard_numel();
    largest = std::max(largest, unit->layout.full_numel());
    sums += unit->sum.gradient_layout().shard_of(world.rank()).numel();
    gradients = std::max(gradients, unit->sum.gradient_layout().full_numel());
    slices = std::max(slices, unit->sum.gradient_layout().slice_of(world.rank()).numel());
  }
  const MemoryReport memory = sharded.memory();
  EXPECT_EQ(memory.parameter_bytes, (4 + 2) * shards);
  EXPECT_EQ(memory.gradient_bytes, 4 * sums);
  EXPECT_EQ(memory.full_parameter_bytes, shared ? 0 : 2 * 2 * largest);
  EXPECT_EQ(memory.full_gradient_bytes, 2 * 2 * (gradients + (shared ? 0 : slices)));
}

TEST(Precision, HoldsFp32ShardsAndWhatIsGatheredInItsDtype) {
  run_ranks(2, [](World& world) { expect_memory_by_dtype(world, false); }, {.backend = "gloo"});
  run_ranks(2, [](World& world) { expect_memory_by_dtype(world, true); }, {.backend = "shm"});
}

}  // namespace
}  // namespace fsdp
