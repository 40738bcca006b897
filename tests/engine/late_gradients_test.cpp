// Gradients that come after their unit was reduced: none where backwards of different kinds take turns.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <vector>

#include "support/drawn.h"
#include "support/gan.h"
#include "support/models.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::Job;
using fsdp::testing::run_ranks;
using testing_models::Gan;

constexpr int kGanSteps = 4, kGanLayers = 3;

CommunicationReport train_gan(World& world, Strategy strategy) {
  Gan gan;
  auto generator = shard(*gan.generator, world, {.strategy = strategy});
  auto discriminator = shard(*gan.discriminator, world, {.strategy = strategy});
  AdamW of_generator(generator), of_discriminator(discriminator);
  for (int step = 0; step < kGanSteps; ++step) {
    const int64_t batch = step * world.size() + world.rank();
    gan.discriminator_loss(batch).backward();
    of_discriminator.step();
    of_discriminator.zero_grad();
    gan.generator_loss(batch).backward();
    of_generator.step();
    of_generator.zero_grad();
    of_discriminator.zero_grad();
  }
  return discriminator.communication();
}

class LateGradients : public ::testing::TestWithParam<Job> {};

TEST_P(LateGradients, AreNoneInAGanWhoseDiscriminatorIsUsedTwiceInOneStepAndOnceInTheNext) {
  run_ranks(GetParam(), [](World& world) {
    for (Strategy strategy : {Strategy::FullShard, Strategy::ShardGradOp, Strategy::NoShard}) {
      const CommunicationReport report = train_gan(world, strategy);
      EXPECT_EQ(report.late_gradients, 0);
      EXPECT_EQ(report.reductions, 2 * kGanSteps * kGanLayers);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Of, LateGradients, drawn<Job>({{3, "shm"}, {2, "gloo"}}, {{1, "shm"}, {2, "shm"}}),
                         ::testing::PrintToStringParamName());

// Layers a, b, a again, and c; `through`: whether gradients go through the second use of a.
struct ThreeLayers {
  torch::Tensor a = torch::eye(4).set_requires_grad(true), b = torch::eye(4).set_requires_grad(true),
                c = torch::eye(4).set_requires_grad(true);

  std::vector<NamedUnit> units() const { return {{"a", {{"a", a}}, {}}, {"b", {{"b", b}}, {}}, {"c", {{"c", c}}, {}}}; }
  torch::Tensor loss(bool through) const {
    const torch::Tensor x = torch::ones({2, 4}, torch::requires_grad());
    const torch::Tensor h = torch::tanh(x.matmul(a).matmul(b));
    const torch::Tensor again = (through ? h : h.detach()).matmul(through ? a : a.detach());
    return (h + again).matmul(c).sum();
  }
};

// The peer's gradient of `a` was reduced, and this one comes after it.
TEST(LateGradient, IsCountedWhereABackwardGoesAnotherWayThanTheLastAfterTheSameForward) {
  run_ranks(2, [](World& world) {
    const ThreeLayers chain;
    auto sharded = shard(chain.units(), world);
    chain.loss(false).backward();
    sharded.zero_grad();
    EXPECT_EQ(sharded.communication().late_gradients, 0);
    chain.loss(world.rank() == 0).backward();
    EXPECT_EQ(sharded.communication().late_gradients, world.rank() == 0 ? 1 : 0);
  });
}

}  // namespace
}  // namespace fsdp
