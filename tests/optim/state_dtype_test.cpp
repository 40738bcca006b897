// Moments in fewer bits: each step is that of fp32 on what was kept, with the same bits on any ranks.
#include <gmock/gmock.h>

#include <cmath>

#include "optim/state_format.h"
#include "optim/training.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/threads.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::differences;
using testing_models::differences_after;
using testing_models::expect_same_bits_with_every_strategy;
using testing_models::keep_as;
using testing_models::make_gpt;
using testing_models::make_two_linears;
using testing_models::run_backward;
using testing_models::TestModel;
using testing_models::Training;
using testing_models::whole_weights;
using testing_models::WholeParameter;

constexpr auto kPacked = {StateDtype::BFloat16, StateDtype::Block8};

class StateDtypeOnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, StateDtypeOnRanks, drawn<int>({3}, {1, 2, 4}), ::testing::PrintToStringParamName());

// The dtypes take turns here and in the next: each model has both, on different numbers of ranks.
TEST_P(StateDtypeOnRanks, EveryModelByEveryStrategyHasTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    size_t turn = world.size();
    for (const auto& kind : testing_models::model_kinds()) {
      SCOPED_TRACE(kind.name);
      const StateDtype dtype = std::data(kPacked)[turn++ % kPacked.size()];
      expect_same_bits_with_every_strategy(kind.make, world,
                                           {.steps = 4, .micro_batches = 2 * world.size(), .state_dtype = dtype});
    }
  });
}

TEST_P(StateDtypeOnRanks, AStepInTheBackwardAndOneThatIsClippedHaveTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    const StateDtype packed = std::data(kPacked)[world.size() % 2], other = std::data(kPacked)[1 - world.size() % 2];
    const auto make = [] { return make_gpt(6); };
    const int64_t batches = 2 * world.size();
    expect_same_bits_with_every_strategy(
        make, world, {.steps = 4, .micro_batches = batches, .state_dtype = packed, .in_backward_every = 1});
    expect_same_bits_with_every_strategy(make, world,
                                         {.steps = 4, .micro_batches = batches, .clip = 0.05, .state_dtype = other});
  });
}

// Adam's kernel on a whole parameter, with the settings of the next test.
void whole_adam(WholeParameter& parameter, const AdamOptions& options) {
  const bool bias = parameter.name.ends_with(".bias");
  auto& states = parameter.states;
  if (options.state_dtype == StateDtype::Block8) {
    const optim::Settings with{.patterns = {},
                               .lr = bias ? 3e-3 : 2e-2,
                               .beta1 = bias ? 0.5 : 0.9,
                               .beta2 = 0.999,
                               .eps = 1e-8,
                               .weight_decay = 0.25};
    return testing_models::step_in_blocks(parameter.value, parameter.value.grad(), states[0], states[1],
                                          parameter.steps, with, optim::WeightDecay::Added, options.maximize);
  }
  const std::vector<torch::Tensor> largest = options.amsgrad ? std::vector{states[2]} : std::vector<torch::Tensor>{};
  at::_fused_adam_({parameter.value}, {parameter.value.grad()}, {states[0]}, {states[1]}, largest, {parameter.steps},
                   bias ? 3e-3 : 2e-2, bias ? 0.5 : 0.9, 0.999, 0.25, 1e-8, options.amsgrad, options.maximize);
  const auto moments = optim::adam_moments(options.state_dtype);
  for (size_t i = 0; i < states.size(); ++i) keep_as(*moments[std::min<size_t>(i, 1)].format, states[i]);
}

TEST_P(StateDtypeOnRanks, AdamOfEveryKindWithGroupsHasTheBitsOfWholeParameters) {
  run_ranks(GetParam(), [](World& world) {
    for (StateDtype dtype : {StateDtype::Float32, StateDtype::BFloat16, StateDtype::Block8}) {
      for (bool amsgrad : {false, true}) {
        if (amsgrad && dtype == StateDtype::Block8) continue;
        const AdamOptions options{.lr = 2e-2,
                                  .weight_decay = 0.25,
                                  .groups = {{.patterns = {"*.bias"}, .lr = 3e-3, .beta1 = 0.5}},
                                  .state_dtype = dtype,
                                  .amsgrad = amsgrad,
                                  .maximize = amsgrad};
        const auto optimizer = [&](ShardedModel& sharded) { return std::make_unique<Adam>(sharded, options); };
        const auto whole = [&](WholeParameter& parameter) { whole_adam(parameter, options); };
        for (const auto& make : {+[] { return make_gpt(); }, &make_two_linears}) {
          EXPECT_THAT(differences_after(4, world, make, optimizer, whole), IsEmpty())
              << static_cast<int>(dtype) << amsgrad;
        }
      }
    }
  });
}

template <typename OptimizerType, typename Options>
testing_models::Weights weights_after(int steps, World& world, const Options& options) {
  const TestModel model = make_gpt();
  auto sharded = shard(*model.module, world);
  OptimizerType optimizer(sharded, options);
  for (int step = 0; step < steps; ++step) {
    run_backward(model, step, world);
    optimizer.step();
    optimizer.zero_grad();
  }
  return whole_weights(*model.module, sharded);
}

TEST_P(StateDtypeOnRanks, AmsgradAndMaximizeMakeADifference) {
  run_ranks(GetParam(), [](World& world) {
    const auto plain = weights_after<Adam>(5, world, AdamOptions{.beta2 = 0.5});
    EXPECT_THAT(differences(plain, weights_after<Adam>(5, world, AdamOptions{.beta2 = 0.5, .amsgrad = true})),
                ::testing::SizeIs(plain.size()));
    EXPECT_THAT(differences(plain, weights_after<Adam>(5, world, AdamOptions{.beta2 = 0.5, .maximize = true})),
                ::testing::SizeIs(plain.size()));
  });
}

// Moments that are zero lose nothing: what a first step with blocks differs by is the rounding of single operations,
// of updates of 1e-3 to weights of about 1.
TEST_P(StateDtypeOnRanks, AFirstStepIsThatOfFp32ToRounding) {
  run_ranks(GetParam(), [](World& world) {
    const auto fp32 = weights_after<AdamW>(1, world, AdamWOptions{});
    const auto found = weights_after<AdamW>(1, world, AdamWOptions{.state_dtype = StateDtype::Block8});
    const auto adam = weights_after<Adam>(1, world, AdamOptions{.weight_decay = 0.25});
    const auto packed =
        weights_after<Adam>(1, world, AdamOptions{.weight_decay = 0.25, .state_dtype = StateDtype::Block8});
    for (size_t i = 0; i < fp32.size(); ++i) {
      EXPECT_TRUE(torch::allclose(found[i].second, fp32[i].second, 1e-6, 1e-6)) << fp32[i].first;
      EXPECT_TRUE(torch::allclose(packed[i].second, adam[i].second, 1e-6, 1e-6)) << fp32[i].first;
    }
  });
}

// The way of the weights in 5 steps, and how far from its end others come to be: root mean squares.
TEST_P(StateDtypeOnRanks, StaysNearFp32) {
  run_ranks(GetParam(), [](World& world) {
    constexpr int kSteps = 5;
    const auto start = weights_after<AdamW>(0, world, AdamWOptions{});
    const auto fp32 = weights_after<AdamW>(kSteps, world, AdamWOptions{});
    const auto distance = [](const testing_models::Weights& a, const testing_models::Weights& b) {
      double sum = 0;
      for (size_t i = 0; i < a.size(); ++i) sum += (a[i].second - b[i].second).pow(2).sum().item<double>();
      return std::sqrt(sum);
    };
    for (const auto& [dtype, bound] : {std::pair{StateDtype::BFloat16, 0.01}, {StateDtype::Block8, 0.1}}) {
      const auto found = weights_after<AdamW>(kSteps, world, AdamWOptions{.state_dtype = dtype});
      EXPECT_LT(distance(found, fp32), bound * distance(start, fp32)) << static_cast<int>(dtype);
      EXPECT_GT(distance(found, fp32), 0) << static_cast<int>(dtype);
    }
  });
}

TEST_P(StateDtypeOnRanks, TakesTheMemoryThatIsCounted) {
  run_ranks(GetParam(), [](World& world) {
    const TestModel model = make_gpt();
    auto sharded = shard(*model.module, world);
    int64_t numel = 0, blocks = 0;
    for (const auto& piece : sharded.shards()) numel += piece.numel(), blocks += (piece.numel() + 63) / 64;
    for (const auto& [dtype, bytes] : {std::pair{StateDtype::Float32, 8 * numel},
                                       {StateDtype::BFloat16, 4 * numel},
                                       {StateDtype::Block8, 2 * numel + 8 * blocks}}) {
      {
        const AdamW optimizer(sharded, {.state_dtype = dtype});
        EXPECT_EQ(sharded.memory().optimizer_bytes, bytes);
      }
      EXPECT_EQ(sharded.memory().optimizer_bytes, 0);
    }
    const Adam amsgrad(sharded, {.state_dtype = StateDtype::BFloat16, .amsgrad = true});
    EXPECT_EQ(sharded.memory().optimizer_bytes, 6 * numel);
  });
}

TEST_P(StateDtypeOnRanks, TellsItsStateAsItIsKept) {
  run_ranks(GetParam(), [](World& world) {
    const TestModel model = make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded, {.state_dtype = StateDtype::Block8});
    const std::vector<std::pair<std::string, torch::ScalarType>> expected{{"exp_avg", torch::kInt8},
                                                                          {"exp_avg_scale", torch::kFloat32},
                                                                          {"exp_avg_sq", torch::kUInt8},
                                                                          {"exp_avg_sq_scale", torch::kFloat32}};
    const Optimizer::State state = optimizer.state();
    ASSERT_EQ(state.elements.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(state.elements[i].name, expected[i].first);
      for (size_t j = 0; j < state.elements[i].tensors.size(); ++j) {
        const int64_t numel = sharded.parameters()[j].piece.numel();
        EXPECT_EQ(state.elements[i].tensors[j].scalar_type(), expected[i].second);
        EXPECT_EQ(state.elements[i].tensors[j].numel(), i % 2 == 0 ? numel : (numel + 63) / 64);
      }
    }
  });
}

TEST_P(StateDtypeOnRanks, AmsgradInBlocksIsAnErrorThatSaysWhatToDo) {
  run_ranks(GetParam(), [](World& world) {
    const TestModel model = make_gpt();
    auto sharded = shard(*model.module, world);
    EXPECT_THAT(message_of<Error>([&] { Adam adam(sharded, {.state_dtype = StateDtype::Block8, .amsgrad = true}); }),
                AllOf(HasSubstr("amsgrad with state_dtype Block8"), HasSubstr("BFloat16")));
    EXPECT_EQ(sharded.memory().optimizer_bytes, 0);
  });
}

// With a scale that is a power of two, and steps that overflow.
TEST_P(StateDtypeOnRanks, AScaledLossGivesTheBitsOfOneThatIsNot) {
  run_ranks(GetParam(), [](World& world) {
    for (StateDtype dtype : kPacked) {
      const TestModel model = make_gpt(), other = make_gpt();
      auto scaled = shard(*model.module, world), plain = shard(*other.module, world);
      AdamW optimizer(scaled, {.state_dtype = dtype}), expected(plain, {.state_dtype = dtype});
      GradScaler scaler({.init_scale = 1024});
      for (int step = 0; step < 4; ++step) {
        const bool overflows = step == 1;
        run_backward(model, step, world, overflows ? INFINITY : scaler.scale_value());
        EXPECT_EQ(scaler.step(optimizer), !overflows);
        scaler.update();
        optimizer.zero_grad();
        if (overflows) continue;
        run_backward(other, step, world);
        expected.step();
        expected.zero_grad();
      }
      EXPECT_THAT(differences(whole_weights(*other.module, plain), whole_weights(*model.module, scaled)), IsEmpty());
    }
  });
}

TEST(Block8Steps, HaveTheBitsOfOneThreadOnSeveral) {
  torch::manual_seed(5);
  const torch::Tensor parameters = torch::randn({50001}), gradients = torch::randn({50001}).pow(3);
  const optim::Settings with{
      .patterns = {}, .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 1e-2};
  std::vector<std::vector<torch::Tensor>> found;
  for (int count : {1, 2, 3, 8}) {
    const fsdp::testing::Threads threads(count);
    found.push_back({parameters.clone(), torch::zeros_like(parameters), torch::zeros_like(parameters)});
    for (int step = 1; step <= 3; ++step) {
      testing_models::step_in_blocks(found.back()[0], gradients * step, found.back()[1], found.back()[2],
                                     torch::full({}, step), with, optim::WeightDecay::Decoupled);
    }
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(found.back()[i], found.front()[i])) << count << " " << i;
  }
  EXPECT_FALSE(torch::equal(found.front()[0], parameters));
}

TEST_P(StateDtypeOnRanks, MuonKeepsTheRestInFewerBits) {
  run_ranks(GetParam(), [](World& world) {
    const TestModel model = make_gpt(), other = make_gpt();
    auto sharded = shard(*model.module, world), packed = shard(*other.module, world);
    const Muon muon(sharded), muon_packed(packed, {.adamw = {.state_dtype = StateDtype::BFloat16}});
    int64_t matrices = 0;
    for (const auto& momentum : Muon(sharded).state().elements) {
      if (momentum.name != "momentum_buffer") continue;
      for (const auto& tensor : momentum.tensors) matrices += tensor.defined() ? 4 * tensor.numel() : 0;
    }
    EXPECT_EQ(2 * (packed.memory().optimizer_bytes - matrices), sharded.memory().optimizer_bytes - matrices);
    EXPECT_GT(packed.memory().optimizer_bytes, matrices);
  });
}

}  // namespace
}  // namespace fsdp
