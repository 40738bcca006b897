// Modules whose forward is checkpointed.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "api/checkpointed.h"

namespace fsdp::checkpointed {
namespace {

// Two inputs, and a default that a Recomputed does not have.
struct PairImpl : torch::nn::Module {
  explicit PairImpl(int64_t width) : norm(register_module("norm", torch::nn::BatchNorm1d(width))) {
    linear = register_module("linear", torch::nn::Linear(width, width));
  }
  std::tuple<Tensor, Tensor> forward(Tensor x, const Tensor& y, int64_t times = 1) {
    x = norm(linear(x)) * times;
    return {x.exp(), y.sin()};
  }
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(Pair);

template <typename Holder>
Holder seeded(int64_t width = kWidth) {
  torch::manual_seed(5);
  return Holder(width);
}

TEST(RecomputedModule, IsItsImplCheckpointed) {
  Pair plain = seeded<Pair>();
  Recomputed<PairImpl> again = seeded<Recomputed<PairImpl>>();
  EXPECT_EQ(again->named_parameters().keys(), plain->named_parameters().keys());
  EXPECT_NE(dynamic_cast<PairImpl*>(again.get()), nullptr);
  const Tensor x = input(), same = input();
  const auto [a, b] = plain(x, x, 2);
  const auto [c, d] = again(same, same, 2);
  EXPECT_TRUE(torch::equal(a, c) && torch::equal(b, d));
  (a * b).sum().backward();
  (c * d).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), same.grad()));
  for (const auto& one : plain->named_parameters())
    EXPECT_TRUE(torch::equal(one.value().grad(), again->named_parameters()[one.key()].grad())) << one.key();
  for (const auto& one : plain->named_buffers())
    EXPECT_TRUE(torch::equal(one.value(), again->named_buffers()[one.key()])) << one.key();
}

TEST(RecomputedModule, LivesInContainers) {
  const auto gradient = [](torch::nn::Module& module, const Tensor& x, const Tensor& y) {
    y.sin().sum().backward();
    Tensors gradients{x.grad()};
    for (const Tensor& parameter : module.parameters()) gradients.push_back(parameter.grad());
    return gradients;
  };
  torch::nn::Sequential plain(seeded<Mlp>(), torch::nn::Tanh()),
      sequence(seeded<Recomputed<MlpImpl>>(), torch::nn::Tanh());
  plain->eval(), sequence->eval();
  Tensor x = input(), same = input();
  expect_equal(gradient(*sequence, x, sequence->forward(x)), gradient(*plain, same, plain->forward(same)));

  torch::nn::AnyModule any(seeded<Recomputed<MlpImpl>>());
  EXPECT_NO_THROW(any.get<RecomputedImpl<MlpImpl>>());
  EXPECT_EQ(any.forward(input()).sizes(), input().sizes());

  torch::nn::ModuleList list(seeded<Recomputed<MlpImpl>>(), seeded<Mlp>());
  auto* block = list[0]->as<Recomputed<MlpImpl>>();
  ASSERT_NE(block, nullptr);
  block->set_recomputation({.keep = KeptResults::Products});
  EXPECT_EQ(list[1]->as<Recomputed<MlpImpl>>(), nullptr);
  EXPECT_THAT(units_of<MlpImpl>().choose(*list), ::testing::ElementsAre("0", "1"));
}

// The graph keeps the module.
TEST(RecomputedModule, MayGoBeforeTheBackward) {
  Tensor x = input(), y;
  {
    Recomputed<MlpImpl> mlp;
    y = mlp(x);
  }
  y.sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

}  // namespace
}  // namespace fsdp::checkpointed
