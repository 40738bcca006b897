#include "support/masked_models.h"

#include <utility>

namespace fsdp::testing_models {

using torch::Tensor;

std::vector<std::pair<std::string, WriteMask>> ways_to_write_masks() {
  return {{"mul_",
           [](Tensor weight, const Tensor& mask) {
             torch::NoGradGuard no_grad;
             weight.mul_(mask);
           }},
          {"data", [](const Tensor& weight, const Tensor& mask) { weight.data().mul_(mask); }},
          {"copy_", [](const Tensor& weight, const Tensor& mask) { weight.data().copy_(weight.data() * mask); }},
          {"masked_fill_", [](const Tensor& weight, const Tensor& mask) { weight.data().masked_fill_(mask == 0, 0); }},
          {"a slice and an element",
           [](const Tensor& weight, const Tensor&) {
             torch::NoGradGuard no_grad;
             weight.slice(2, 2).zero_();
             weight.slice(3, 2).select(2, 1).zero_();
           }},
          {"out",
           [](const Tensor& weight, const Tensor& mask) {
             torch::NoGradGuard no_grad;
             Tensor out = weight.detach();
             torch::mul_out(out, weight, mask);
           }},
          {"_foreach_mul_", [](const Tensor& weight, const Tensor& mask) {
             torch::NoGradGuard no_grad;
             at::_foreach_mul_(std::vector<Tensor>{weight}, std::vector<Tensor>{mask});
           }}};
}

MaskedConvolutionImpl::MaskedConvolutionImpl(int64_t in, int64_t out, WriteMask write)
    : weight(register_parameter("weight", torch::randn({out, in, 3, 3}) / 3)),
      bias(register_parameter("bias", torch::zeros({out}))),
      mask(register_buffer("mask", torch::ones({out, in, 3, 3}))),
      write(std::move(write)) {
  mask.slice(2, 2).zero_();
  mask.slice(3, 2).select(2, 1).zero_();
}

Tensor MaskedConvolutionImpl::forward(const Tensor& x) {
  write(weight, mask);
  return torch::conv2d(x.to(weight.scalar_type()), weight, bias, 1, 1);
}

MaskedNetImpl::MaskedNetImpl() : layers(register_module("layers", torch::nn::ModuleList())) {
  int64_t in = 2;
  for (const auto& [name, write] : ways_to_write_masks())
    layers->push_back(MaskedConvolution(std::exchange(in, 5), 5, write));
}

Tensor MaskedNetImpl::forward(Tensor x) {
  for (const auto& layer : *layers) x = torch::tanh(layer->as<MaskedConvolutionImpl>()->forward(x));
  return x;
}

Tensor masked_net_loss(MaskedNetImpl& net, int64_t micro_batch) {
  return net.forward(values_for(micro_batch, {2, 2, 6, 6})).pow(2).mean();
}

TestModel make_masked() {
  torch::manual_seed(31);
  MaskedNet net;
  return {net.ptr(), [net](int64_t b) mutable { return masked_net_loss(*net, b); }};
}

}  // namespace fsdp::testing_models
