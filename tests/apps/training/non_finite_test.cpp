#include "training/non_finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "models/language_model.h"
#include "run/sharding.h"
#include "support/run_ranks.h"

namespace trainer {
namespace {

using fsdp::testing::run_ranks;

constexpr const char* kParameter = "transformer.h.1.mlp.c_fc.bias";

// Expects that one parameter's gradients are found not finite after a backward whose loss is finite.
void expect_found(fsdp::World& world, float value, bool after_clipping) {
  const models::ModelConfig config{.vocabulary = 61, .context = 8, .width = 64, .layers = 2, .heads = 2};
  const auto model = models::make_model(config);
  auto sharded = fsdp::shard(*model, world, sharding_of(RunOptions()));
  model->named_parameters()[kParameter].register_hook(
      [value](const torch::Tensor& gradient) { return gradient * value; });
  const torch::Tensor tokens = torch::arange(16, torch::kInt64).view({2, 8});
  const torch::Tensor loss = model->loss(tokens, tokens);
  EXPECT_TRUE(std::isfinite(loss.item<float>()));
  loss.backward();
  if (after_clipping) {
    EXPECT_FALSE(std::isfinite(sharded.clip_grad_norm_(1.0)));
  }
  const auto found = first_not_finite(world, sharded, config);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->parameter, kParameter);
  EXPECT_EQ(found->unit, "transformer.h.1");
  EXPECT_LT(found->rank, world.size());
}

TEST(NotFinite, GradientsAreFoundAfterTheyWereClipped) {
  for (const int ranks : {1, 2}) {
    run_ranks(ranks, [](fsdp::World& world) {
      expect_found(world, std::numeric_limits<float>::quiet_NaN(), true);
      expect_found(world, std::numeric_limits<float>::infinity(), true);
    });
  }
}

TEST(NotFinite, NothingIsFoundWhereAllGradientsAre) {
  run_ranks(2, [](fsdp::World& world) {
    const models::ModelConfig config{.vocabulary = 61, .context = 8, .width = 64, .layers = 2, .heads = 2};
    const auto model = models::make_model(config);
    auto sharded = fsdp::shard(*model, world, sharding_of(RunOptions()));
    const torch::Tensor tokens = torch::arange(16, torch::kInt64).view({2, 8});
    model->loss(tokens, tokens).backward();
    sharded.clip_grad_norm_(1.0);
    EXPECT_FALSE(first_not_finite(world, sharded, config).has_value());
  });
}

}  // namespace
}  // namespace trainer
