// A module that runs more than once, and graphs that are run backward more than once, or never.
#include <gmock/gmock.h>

#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using testing_models::expect_same_bits;
using testing_models::TestModel;
using testing_models::Training;
using testing_models::values_for;
using torch::Tensor;

constexpr int64_t kBlocks = 3, kWidth = 15;

struct Net : torch::nn::Module {
  Net() : blocks(register_module("blocks", torch::nn::ModuleList())) {
    for (int64_t i = 0; i < kBlocks; ++i) blocks->push_back(torch::nn::Linear(kWidth, kWidth));
  }
  Tensor forward(Tensor x, const std::vector<size_t>& order = {0, 1, 2}) {
    for (size_t i : order) x = x + torch::tanh(blocks->at<torch::nn::LinearImpl>(i).forward(x));
    return x;
  }

  torch::nn::ModuleList blocks;
};

using Loss = std::function<Tensor(Net& net, int64_t micro_batch)>;

// A model whose loss is `loss`, made afresh at each call.
std::function<TestModel()> with(const Loss& loss) {
  return [loss] {
    torch::manual_seed(8);
    auto net = std::make_shared<Net>();
    return TestModel{net, [net, loss](int64_t b) { return loss(*net, b); }};
  };
}

Tensor input(int64_t b) { return values_for(b, {4, kWidth}); }

class Repeated : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Repeated, ::testing::Values(2, 3), ::testing::PrintToStringParamName());

TEST_P(Repeated, AModuleCalledSeveralTimesIsReducedOnce) {
  run_ranks(GetParam(), [](World& world) {
    const auto make = with([](Net& net, int64_t b) { return net.forward(input(b), {0, 1, 0, 2, 1, 1}).pow(2).mean(); });
    const Training training{.micro_batches = 2 * world.size(), .clip = 0.1};
    const CommunicationReport report = expect_same_bits(make, world, training);
    EXPECT_EQ(report.reductions, training.steps * 2 * kBlocks);
    EXPECT_EQ(report.late_gradients, 0);
  });
}

TEST_P(Repeated, SeveralForwardsBeforeOneBackward) {
  run_ranks(GetParam(), [](World& world) {
    const auto make = with([](Net& net, int64_t b) {
      const Tensor first = net.forward(input(b)), second = net.forward(input(1000 + b), {2, 0, 1});
      return (first * second).mean();
    });
    expect_same_bits(make, world, {.micro_batches = world.size()});
  });
}

TEST_P(Repeated, AForwardThatIsNeverRunBackward) {
  run_ranks(GetParam(), [](World& world) {
    const int64_t micro_batches = 2 * world.size();
    const auto make = with([&](Net& net, int64_t b) {
      if (b / micro_batches % 3 == 1) net.forward(input(1000 + b), {1, 2});
      return net.forward(input(b)).pow(2).mean();
    });
    expect_same_bits(make, world, {.micro_batches = micro_batches});
  });
}

// Each backward counts as a micro-batch: those of all ranks first, then those of all ranks again.
TEST_P(Repeated, TwoBackwardsOfAGraphThatIsRetained) {
  run_ranks(GetParam(), [](World& world) {
    constexpr int kSteps = 5;
    const int64_t ranks = world.size();
    const auto make = with([&](Net& net, int64_t b) {
      const int64_t step = b / (2 * ranks);
      return net.forward(input(step * ranks + b % ranks)).pow(2).mean();
    });
    const Training training{.steps = kSteps, .micro_batches = 2 * ranks};
    const TestModel model = make();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded, {.lr = training.lr});
    sharded.set_gradient_divisor(static_cast<double>(training.micro_batches));
    for (int step = 0; step < kSteps; ++step) {
      const Tensor loss = model.loss(step * 2 * ranks + world.rank());
      loss.backward({}, /*retain_graph=*/true);
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    const auto found = testing_models::whole_weights(*model.module, sharded);
    const auto expected = testing_models::train_unsharded(make(), training);
    EXPECT_THAT(testing_models::differences(expected, found), ::testing::IsEmpty());
  });
}

// Gulrajani and others, https://arxiv.org/abs/1704.00028
TEST_P(Repeated, AGradientPenalty) {
  run_ranks(GetParam(), [](World& world) {
    const auto make = with([](Net& net, int64_t b) {
      const Tensor x = input(b).requires_grad_();
      const Tensor scores = net.forward(x).pow(2).mean(1);
      const Tensor slope =
          torch::autograd::grad({scores.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
      return scores.mean() + (slope.norm(2, 1) - 1).pow(2).mean();
    });
    expect_same_bits(make, world, {.micro_batches = 2 * world.size(), .clip = 0.5});
  });
}

}  // namespace
}  // namespace fsdp
