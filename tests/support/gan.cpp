#include "support/gan.h"

#include "support/models.h"

namespace fsdp::testing_models {

using torch::Tensor;

namespace {

struct LayerImpl : torch::nn::Module {
  LayerImpl(int64_t in, int64_t out) : linear(register_module("linear", torch::nn::Linear(in, out))) {}
  Tensor forward(const Tensor& x) { return torch::tanh(linear->forward(x)); }

  torch::nn::Linear linear;
};
TORCH_MODULE(Layer);

}  // namespace

Gan::Gan() {
  torch::manual_seed(13);
  generator = torch::nn::Sequential(Layer(4, 15), Layer(15, 16), Layer(16, 6));
  discriminator = torch::nn::Sequential(Layer(6, 16), Layer(16, 15), Layer(15, 1));
}

Tensor Gan::fake(int64_t micro_batch) { return generator->forward(values_for(micro_batch, {5, 4})); }
Tensor Gan::score(const Tensor& sample) { return discriminator->forward(sample).mean(); }

Tensor Gan::discriminator_loss(int64_t micro_batch) {
  return score(fake(micro_batch).detach()) - score(values_for(1000 + micro_batch, {5, 6}));
}

Tensor Gan::generator_loss(int64_t micro_batch) { return -score(fake(micro_batch)); }

}  // namespace fsdp::testing_models
