#include "support/repeated_models.h"

namespace fsdp::testing_models {

using torch::Tensor;

namespace {

constexpr int64_t kResidualWidth = 15;

}  // namespace

Residual::Residual() : blocks(register_module("blocks", torch::nn::ModuleList())) {
  for (int64_t i = 0; i < kResidualBlocks; ++i) blocks->push_back(torch::nn::Linear(kResidualWidth, kResidualWidth));
}

Tensor Residual::layer(size_t i, const Tensor& x) {
  return x + torch::tanh(blocks->at<torch::nn::LinearImpl>(i).forward(x));
}

Tensor Residual::forward(Tensor x, const std::vector<size_t>& order) {
  for (size_t i : order) x = layer(i, x);
  return x;
}

Tensor residual_input(int64_t micro_batch) { return values_for(micro_batch, {4, kResidualWidth}); }

std::function<TestModel()> residual_with(const ResidualLoss& loss) {
  return [loss] {
    torch::manual_seed(8);
    auto net = std::make_shared<Residual>();
    return TestModel{net, [net, loss](int64_t b) { return loss(*net, b); }};
  };
}

TestModel make_plain_residual() {
  return residual_with([](Residual& net, int64_t b) { return net.forward(residual_input(b)).pow(2).mean(); })();
}

TestModel make_called_several_times() {
  return residual_with([](Residual& net, int64_t b) {
    return net.forward(residual_input(b), {0, 1, 0, 2, 1, 1}).pow(2).mean();
  })();
}

TestModel make_two_forwards() {
  return residual_with([](Residual& net, int64_t b) {
    const Tensor first = net.forward(residual_input(b)), second = net.forward(residual_input(1000 + b), {2, 0, 1});
    return (first * second).mean();
  })();
}

TestModel make_forward_without_backward() {
  return residual_with([](Residual& net, int64_t b) {
    net.forward(residual_input(1000 + b), {1, 2});
    return net.forward(residual_input(b)).pow(2).mean();
  })();
}

TestModel make_gradient_penalty() {
  return residual_with([](Residual& net, int64_t b) {
    const Tensor x = residual_input(b).requires_grad_();
    const Tensor scores = net.forward(x).pow(2).mean(1);
    const Tensor slope =
        torch::autograd::grad({scores.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    return scores.mean() + (slope.norm(2, 1) - 1).pow(2).mean();
  })();
}

}  // namespace fsdp::testing_models
