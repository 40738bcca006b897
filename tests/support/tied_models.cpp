#include "support/tied_models.h"

namespace fsdp::testing_models {

namespace {

using torch::Tensor;

// Uses `own` and `shared`, each several times, in another order than that of the units.
struct TiedBlock : torch::nn::Module {
  TiedBlock(const Tensor& tied, int64_t rows, int64_t width)
      : own(register_parameter("own", torch::randn({rows, width}) / 4)),
        shared(register_parameter("shared", tied.defined() ? tied : own)) {}
  Tensor forward(const Tensor& x) {
    const Tensor own_transposed = own.t(), shared_transposed = shared.t();
    const Tensor first = torch::linear(torch::linear(x, shared), own_transposed);
    const Tensor second = torch::linear(torch::linear(x, own), shared_transposed);
    return x + torch::tanh(first + second);
  }

  Tensor own, shared;
};

}  // namespace

TestModel make_tied(Tied tied, int64_t rows, int64_t width, StepBegins begins) {
  torch::manual_seed(3);
  torch::nn::Sequential blocks;
  Tensor first;
  for (int i = 0; i < 3; ++i) {
    auto block = std::make_shared<TiedBlock>(first, rows, width);
    if (tied == Tied::Across) first = block->shared;
    blocks->push_back(block);
  }
  auto model = std::make_shared<torch::nn::Module>();
  auto input = model->register_module("input", torch::nn::Linear(5, width));
  model->register_module("blocks", blocks);
  if (begins == StepBegins::WithView) {
    return {model, [blocks, width](int64_t b) mutable {
              return blocks->forward(values_for(b, {4, width})).pow(2).mean();
            }};
  }
  return {model, [input, blocks](int64_t b) mutable {
            return blocks->forward(input->forward(values_for(b, {4, 5}))).pow(2).mean();
          }};
}

}  // namespace fsdp::testing_models
