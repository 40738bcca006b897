// What the tests of recomputation are made of: a block of layers, and how a model is called.
#pragma once

#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "support/models.h"

namespace fsdp::checkpointed {

using testing_models::values_for;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int64_t kWidth = 8;

// Norm, linear, GELU, dropout, linear, and the input around them.
struct MlpImpl : torch::nn::Module {
  explicit MlpImpl(int64_t width = kWidth)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        up(register_module("up", torch::nn::Linear(width, 3 * width))),
        drop(register_module("drop", torch::nn::Dropout(0.3))),
        down(register_module("down", torch::nn::Linear(3 * width, width))) {}
  Tensor forward(const Tensor& x) { return x + down(drop(torch::gelu(up(norm(x))))); }

  torch::nn::LayerNorm norm;
  torch::nn::Linear up;
  torch::nn::Dropout drop;
  torch::nn::Linear down;
};
TORCH_MODULE(Mlp);

// How a part of a case's model is called: as it is, or checkpointed.
class Caller {
 public:
  explicit Caller(std::optional<ActivationCheckpointOptions> options) : options_(std::move(options)) {}
  template <typename Function, typename... Inputs>
  auto operator()(Function function, const Inputs&... inputs) const {
    if (!options_) return std::invoke(function, inputs...);
    return activation_checkpoint(*options_, function, inputs...);
  }

 private:
  std::optional<ActivationCheckpointOptions> options_;
};

inline Tensor input() { return values_for(1, {2, kWidth}).requires_grad_(); }

inline void expect_equal(const Tensors& found, const Tensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << i;
    if (found[i].defined()) EXPECT_TRUE(torch::equal(found[i], expected[i])) << i << found[i] << expected[i];
  }
}

}  // namespace fsdp::checkpointed
