// One rank alone: its gradients stay where autograd made them, unless somebody else holds on to those bytes.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using torch::Tensor;

struct TwoParameters {
  Tensor a = torch::linspace(-1, 1, 12).view({3, 4}).set_requires_grad(true);
  Tensor b = torch::linspace(2, 5, 12).view({3, 4}).set_requires_grad(true);
  const Tensor input = torch::linspace(0, 1, 12).view({4, 3});

  ShardedModel shard(World& world) { return fsdp::shard({{"pair", {{"a", a}, {"b", b}}, {}}}, world); }
};

const void* address_of(const Tensor& tensor) { return tensor.const_data_ptr(); }

TEST(OneRank, KeepsTheGradientThatAutogradMade) {
  run_ranks(1, [](World& world) {
    TwoParameters pair;
    auto sharded = pair.shard(world);
    const void* made = nullptr;
    pair.a.register_hook([&](const Tensor& gradient) { made = address_of(gradient); });
    pair.a.mm(pair.input).sum().backward();
    EXPECT_EQ(address_of(sharded.parameters()[0].piece.grad()), made);
  });
}

// Both gradients are views of one tensor; scaling one would scale the other.
TEST(OneRank, CopiesGradientsThatShareTheirBytes) {
  run_ranks(1, [](World& world) {
    TwoParameters pair, plain;
    auto sharded = pair.shard(world);
    auto loss = [](TwoParameters& pair) { return ((pair.a.t() + pair.b.t()) * pair.input).square().sum(); };
    loss(pair).backward();
    loss(plain).backward();
    const double norm = sharded.clip_grad_norm_(0.5);
    const float factor = static_cast<float>(0.5 / (norm + 1e-6));
    EXPECT_TRUE(torch::equal(sharded.parameters()[0].piece.grad(), plain.a.grad().contiguous().view(-1) * factor));
    EXPECT_TRUE(torch::equal(sharded.parameters()[1].piece.grad(), plain.b.grad().contiguous().view(-1) * factor));
    EXPECT_NE(address_of(sharded.parameters()[0].piece.grad()), address_of(sharded.parameters()[1].piece.grad()));
  });
}

TEST(OneRank, CopiesAGradientThatTheUserHolds) {
  run_ranks(1, [](World& world) {
    TwoParameters pair;
    auto sharded = pair.shard(world);
    const Tensor held = torch::ones({3, 4});
    pair.a.backward(held);
    sharded.clip_grad_norm_(0.5);
    EXPECT_TRUE(torch::equal(held, torch::ones({3, 4})));
    EXPECT_LT(sharded.parameters()[0].piece.grad().max().item<float>(), 1);
  });
}

TEST(OneRank, HoldsMemoryForGradientsOnlyWhileItHasThem) {
  run_ranks(1, [](World& world) {
    TwoParameters pair;
    auto sharded = pair.shard(world);
    for (int step = 0; step < 2; ++step) {
      EXPECT_EQ(sharded.memory().gradient_bytes, 0);
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) pair.a.mm(pair.input).sum().backward();
      EXPECT_EQ(sharded.memory().gradient_bytes, 12 * 4);
      EXPECT_EQ(sharded.memory().full_gradient_bytes, 0);
      sharded.zero_grad();
    }
  });
}

}  // namespace
}  // namespace fsdp
