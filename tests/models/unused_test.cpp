// Parameters and outputs that a step leaves out.
#include <gmock/gmock.h>

#include <tuple>

#include "support/drawn.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::Job;
using fsdp::testing::run_ranks;
using testing_models::expect_same_bits;
using testing_models::TestModel;
using testing_models::values_for;
using torch::Tensor;

constexpr int64_t kUnusedWidth = 9;

struct Outputs {
  Tensor main;
  std::tuple<Tensor, Tensor> nested;
};

struct TwoBranches : torch::nn::Module {
  TwoBranches()
      : body(register_module("body", torch::nn::Sequential(linear(), linear(), linear()))),
        heads(register_module("heads", torch::nn::ModuleList(linear(), linear(), linear()))),
        left(register_parameter("left", torch::ones({kUnusedWidth}))),
        right(register_parameter("right", torch::ones({kUnusedWidth}))) {}
  static torch::nn::Linear linear() { return torch::nn::Linear(kUnusedWidth, kUnusedWidth); }
  Tensor head(size_t i, const Tensor& x) { return heads->at<torch::nn::LinearImpl>(i).forward(x); }
  Outputs forward(const Tensor& input) {
    const Tensor x = torch::tanh(body->forward(input));
    return {head(0, x), {head(1, x), head(2, x)}};
  }

  torch::nn::Sequential body;
  torch::nn::ModuleList heads;
  Tensor left, right;
};

using Loss = std::function<Tensor(TwoBranches& net, const Tensor& x, int64_t micro_batch)>;

void expect_same(const Job& job, int64_t accumulation, const Loss& loss, Strategy strategy = Strategy::FullShard) {
  run_ranks(job, [&](World& world) {
    const int64_t micro_batches = world.size() * accumulation;
    const auto make = [&] {
      torch::manual_seed(9);
      auto net = std::make_shared<TwoBranches>();
      return TestModel{net, [net, &loss](int64_t b) { return loss(*net, values_for(b, {4, kUnusedWidth}), b); }};
    };
    expect_same_bits(make, world, {.micro_batches = micro_batches, .clip = 0.2}, {.strategy = strategy});
  });
}

class Unused : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, Unused, drawn<Job>({{2, "gloo"}}, {{2, "shm"}, {3, "shm"}}),
                         ::testing::PrintToStringParamName());

// Gathers that ranks begin alone need no common order.
std::vector<Strategy> strategies_without_order(const Job& job) {
  std::vector<Strategy> strategies{Strategy::ShardGradOp, Strategy::ShardOptimizer, Strategy::NoShard};
  if (job.backend == "shm") strategies.push_back(Strategy::FullShard);
  return strategies;
}

// The optimizer skips it there, and its step count stays behind the others'.
TEST_P(Unused, AUnitInSomeStepsOnEveryRank) {
  expect_same(GetParam(), 1, [ranks = GetParam().ranks](TwoBranches& net, const Tensor& x, int64_t b) {
    const int64_t step = b / ranks;
    Tensor y = torch::tanh(net.body->forward(x)) * (step % 3 == 0 ? net.left : net.right);
    return net.head(step % 3 == 1 ? 0 : 2, y).pow(2).mean();
  });
}

TEST_P(Unused, AParameterOnSomeRanks) {
  expect_same(GetParam(), 1, [](TwoBranches& net, const Tensor& x, int64_t b) {
    const Tensor gain = b % 2 == 0 ? net.left : net.right;
    return (net.forward(x).main * gain).pow(2).mean();
  });
}

// The backward passes through the unit on every rank, for the sake of what lies before it.
TEST_P(Unused, AUnitsGradientOnSomeRanks) {
  const int ranks = GetParam().ranks;
  for (int64_t first_step : {0, 1}) {  // that lacks one: the step that is recorded, or a later one
    expect_same(GetParam(), 1, [=](TwoBranches& net, const Tensor& x, int64_t b) {
      const auto& head = net.heads->at<torch::nn::LinearImpl>(1);
      const bool lacks = b / ranks >= first_step && b % 2 == 1;
      const Tensor weight = lacks ? head.weight.detach() : head.weight, bias = lacks ? head.bias.detach() : head.bias;
      return torch::linear(torch::tanh(net.body->forward(x)), weight, bias).pow(2).mean();
    });
  }
}

// The forward uses the unit on every rank, the backward on some.
TEST_P(Unused, AUnitInTheBackwardOfSomeRanks) {
  for (Strategy strategy : strategies_without_order(GetParam())) {
    expect_same(
        GetParam(), 1,
        [](TwoBranches& net, const Tensor& x, int64_t b) {
          const Outputs outputs = net.forward(x);
          const Tensor other = std::get<0>(outputs.nested);
          return (outputs.main + (b % 2 == 1 ? other.detach() : other)).pow(2).mean();
        },
        strategy);
  }
}

// Layers dropped at random, each rank by its own lot, from the first step on.
TEST_P(Unused, BlocksThatEachRankLeavesOut) {
  for (Strategy strategy : strategies_without_order(GetParam())) {
    run_ranks(GetParam(), [&](World& world) {
      const auto make = [] {
        torch::manual_seed(9);
        torch::nn::Sequential blocks;
        for (int i = 0; i < 6; ++i) blocks->push_back(TwoBranches::linear());
        return TestModel{blocks.ptr(), [blocks](int64_t b) mutable {
                           Tensor x = values_for(b, {4, kUnusedWidth});
                           for (size_t i = 0; i < 6; ++i) {
                             if ((b * 7 + static_cast<int64_t>(i) * 3) % 5 < 3) {
                               x = x + torch::tanh(blocks->at<torch::nn::LinearImpl>(i).forward(x));
                             }
                           }
                           return x.pow(2).mean();
                         }};
      };
      expect_same_bits(make, world, {.micro_batches = 2 * world.size(), .clip = 0.2}, {.strategy = strategy});
    });
  }
}

TEST_P(Unused, NestedOutputs) {
  expect_same(GetParam(), 2, [](TwoBranches& net, const Tensor& x, int64_t) {
    const Outputs outputs = net.forward(x);
    return (outputs.main * std::get<1>(outputs.nested)).pow(2).mean();
  });
}

}  // namespace
}  // namespace fsdp
