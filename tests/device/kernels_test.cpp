// Kernels of the device that the CPU has otherwise compute what the CPU's compute, gradients included.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <functional>
#include <vector>

#include "device/device.h"

namespace {

using torch::Tensor;
using Function = std::function<Tensor(const std::vector<Tensor>& inputs)>;

const torch::Device kDevice(torch::kCUDA, 0);

// The result, and the gradients of a weighted sum of it.
std::vector<Tensor> results_of(const Function& function, std::vector<Tensor> inputs, torch::Device device) {
  for (Tensor& input : inputs) input = input.detach().to(device).requires_grad_();
  const Tensor result = function(inputs);
  const Tensor weights = torch::linspace(-1, 1, result.numel()).view(result.sizes()).to(device, result.scalar_type());
  const auto gradients = torch::autograd::grad({(result * weights).sum()}, inputs);
  std::vector<Tensor> all{result.detach().cpu()};
  for (const Tensor& gradient : gradients) all.push_back(gradient.cpu());
  return all;
}

// Kernels add in other orders. `tolerance` is relative to the largest element.
void expect_near(const std::vector<Tensor>& found, const std::vector<Tensor>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), expected[i].scalar_type()) << i;
    const double largest = expected[i].abs().max().item<double>();
    EXPECT_LE((found[i] - expected[i]).abs().max().item<double>(), tolerance * largest) << i;
  }
}

double tolerance_of(torch::ScalarType dtype) { return dtype == torch::kFloat32 ? 1e-5 : 3e-2; }

std::vector<Tensor> attention_inputs(int64_t key_heads, torch::ScalarType dtype) {
  torch::manual_seed(1);
  return {torch::randn({2, 4, 9, 16}).to(dtype), torch::randn({2, key_heads, 9, 16}).to(dtype),
          torch::randn({2, key_heads, 9, 16}).to(dtype)};
}

Function attention(double dropout, bool causal, bool grouped) {
  return [=](const std::vector<Tensor>& inputs) {
    return torch::scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], {}, dropout, causal, {}, grouped);
  };
}

TEST(DeviceKernels, AttendAsTheCpu) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kHalf}) {
    for (const int64_t key_heads : {2, 4}) {
      for (const bool causal : {false, true}) {
        SCOPED_TRACE(testing::Message() << dtype << ", " << key_heads << " heads of keys, causal " << causal);
        const Function function = attention(0, causal, key_heads < 4);
        const auto inputs = attention_inputs(key_heads, dtype);
        expect_near(results_of(function, inputs, kDevice), results_of(function, inputs, torch::kCPU),
                    tolerance_of(dtype));
      }
    }
  }
}

// LibTorch's composed attention draws the same numbers.
TEST(DeviceKernels, DropTheSharesOfAttention) {
  for (const int64_t key_heads : {2, 4}) {
    const bool grouped = key_heads < 4;
    const auto inputs = attention_inputs(key_heads, torch::kFloat32);
    const Function composed = [&](const std::vector<Tensor>& of) {
      return std::get<0>(at::_scaled_dot_product_attention_math(of[0], of[1], of[2], {}, 0.3, true, {}, {}, grouped));
    };
    torch::manual_seed(3);
    const auto expected = results_of(composed, inputs, kDevice);
    torch::manual_seed(3);
    const auto found = results_of(attention(0.3, true, grouped), inputs, kDevice);
    expect_near(found, expected, 1e-5);
    EXPECT_FALSE(found[0].allclose(results_of(attention(0, true, grouped), inputs, kDevice)[0]));
  }
}

TEST(DeviceKernels, NormaliseAsTheCpu) {
  torch::manual_seed(1);
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    SCOPED_TRACE(testing::Message() << dtype);
    const std::vector<Tensor> inputs{torch::randn({3, 5, 16}).to(dtype), torch::randn({16}).to(dtype),
                                     torch::randn({16}).to(dtype)};
    const Function layer = [](const std::vector<Tensor>& of) { return torch::layer_norm(of[0], {16}, of[1], of[2]); };
    const auto found = results_of(layer, inputs, kDevice), expected = results_of(layer, inputs, torch::kCPU);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
    const Function root = [](const std::vector<Tensor>& of) {
      return torch::rms_norm(of[0], {16}, of[1], 1e-5) + of[2];
    };
    expect_near(results_of(root, inputs, kDevice), results_of(root, inputs, torch::kCPU), tolerance_of(dtype));
  }
}

}  // namespace
