// Models whose layers lie on several devices of one process, as LibTorch allows: the bits of one device.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "device/device.h"
#include "interpose/later_products.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/variable.h"

namespace fsdp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using torch::Tensor;

constexpr int kByHandSteps = 3;

// Two halves, each on its device.
struct ByHandNet : torch::nn::Module {
  ByHandNet(torch::Device first, torch::Device second) : first(first), second(second) {
    torch::manual_seed(4);
    up = register_module("up", torch::nn::Linear(12, 40));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({40})));
    down = register_module("down", torch::nn::Linear(40, 6));
    up->to(first);
    norm->to(first);
    down->to(second);
  }
  Tensor forward(const Tensor& x) {
    const auto half = [this](const Tensor& h) { return norm(torch::tanh(up(h))); };
    return down(activation_checkpoint(half, x.to(first)).to(second));
  }

  torch::Device first, second;
  torch::nn::Linear up{nullptr}, down{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};

enum class Backward { Whole, InTwoParts };

std::vector<Tensor> trained(torch::Device first, torch::Device second, Backward backward = Backward::Whole) {
  const auto net = std::make_shared<ByHandNet>(first, second);
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-2));
  for (int step = 0; step < kByHandSteps; ++step) {
    const Tensor loss = net->forward(testing_models::values_for(step, {5, 12})).pow(2).sum();
    if (backward == Backward::Whole) {
      loss.backward();
    } else {
      interpose::LaterProducts later;
      later.backward_to_inputs({loss}, {{}}, {});
      later.run();
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  std::vector<Tensor> weights;
  for (const Tensor& weight : net->parameters()) weights.push_back(weight.detach().cpu());
  return weights;
}

void expect_equal_weights(const std::vector<Tensor>& expected, const std::vector<Tensor>& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(expected[i], found[i])) << i;
}

TEST(LayersByHand, OnSeveralDevicesHaveTheBitsOfOne) {
  const testing::Variable devices("FSDP_TEST_DEVICES", "2");
  testing::run_rank_processes(1, [](World&) {
    const torch::Device zero(torch::kCUDA, 0), one(torch::kCUDA, 1);
    const std::vector<Tensor> expected = trained(torch::kCPU, torch::kCPU);
    for (const auto& [first, second] :
         std::vector<std::pair<torch::Device, torch::Device>>{{zero, zero}, {zero, one}, {torch::kCPU, one}}) {
      SCOPED_TRACE(first.str() + " and " + second.str());
      testing::device::start_log();
      expect_equal_weights(expected, trained(first, second));
      expect_equal_weights(expected, trained(first, second, Backward::InTwoParts));
      testing::device::stop_log();
      EXPECT_THAT(testing::device::missing_waits(), IsEmpty());
    }
  });
}

TEST(LayersByHand, AreRefusedByShardWithTheRemedy) {
  const testing::Variable devices("FSDP_TEST_DEVICES", "2");
  testing::run_rank_processes(1, [](World& world) {
    ByHandNet net({torch::kCUDA, 0}, {torch::kCUDA, 1});
    EXPECT_THAT(testing::message_of([&] { shard(net, world); }),
                AllOf(HasSubstr("up.weight is on cuda:0, but down.weight is on cuda:1"), HasSubstr("fsdp::Pipeline")));
  });
}

}  // namespace
}  // namespace fsdp
