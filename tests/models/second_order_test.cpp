// Gradients that are differentiated again, with respect to sharded parameters.
#include <gmock/gmock.h>

#include "support/drawn.h"
#include "support/message_of.h"
#include "support/repeated_models.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_models::Residual;
using testing_models::residual_input;
using testing_models::residual_with;
using torch::Tensor;
using torch::autograd::grad;

Tensor loss_of(Residual& net, int64_t b) { return net.forward(residual_input(b)).pow(2).mean(); }

class SecondOrder : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SecondOrder, drawn<int>({3}, {2, 4}), ::testing::PrintToStringParamName());

TEST_P(SecondOrder, ThroughBackwardIsRefused) {
  run_ranks(GetParam(), [](World& world) {
    const auto model = residual_with(loss_of)();
    auto sharded = shard(*model.module, world);
    const auto backward = [&](bool create_graph) {
      return message_of([&] { model.loss(0).backward({}, /*retain_graph=*/true, create_graph); });
    };
    EXPECT_THAT(backward(true),
                AllOf(HasSubstr("unit="), HasSubstr("create_graph"), HasSubstr("torch::autograd::grad")));
    sharded.zero_grad();
    EXPECT_EQ(backward(false), "no error");
  });
}

// Nothing is lost with a gradient that depends on no parameter.
TEST(SecondOrderOfALine, HasNothingToLose) {
  run_ranks(2, [](World& world) {
    const Tensor weight = torch::ones({3}, torch::requires_grad());
    auto sharded = shard(std::vector<NamedUnit>{{"only", {{"weight", weight}}, {}}}, world);
    (weight * torch::full({3}, 2.0)).sum().backward({}, /*retain_graph=*/true, /*create_graph=*/true);
    EXPECT_TRUE(torch::equal(sharded.shards()[0].grad().clone(), torch::full({world.rank() == 0 ? 3 : 0}, 2.0)));
  });
}

// They are this rank's, whole, and leave the pieces' gradients alone, as in PyTorch.
TEST_P(SecondOrder, GradOfParametersIsThatOfThePlainModel) {
  run_ranks(GetParam(), [](World& world) {
    const auto plain = residual_with(loss_of)();
    for (const auto& [name, options] : testing_models::every_strategy(world.size())) {
      const auto model = residual_with(loss_of)();
      auto sharded = shard(*model.module, world, options);
      for (int64_t b = world.rank(); b < 3 * world.size(); b += world.size()) {
        const auto found = grad({model.loss(b)}, model.module->parameters());
        const auto expected = grad({plain.loss(b)}, plain.module->parameters());
        for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(found[i], expected[i])) << name << i;
      }
      for (const Tensor& piece : sharded.shards()) EXPECT_FALSE(piece.grad().defined()) << name;
    }
  });
}

// Of two of the three blocks' weights, with a plain backward of the loss that is made of them.
TEST_P(SecondOrder, APenaltyOnGradientsOfParameters) {
  run_ranks(GetParam(), [](World& world) {
    const auto make = residual_with([](Residual& net, int64_t b) {
      const Tensor loss = loss_of(net, b);
      const auto slopes = grad({loss}, {net.blocks->parameters()[0], net.blocks->parameters()[2]}, {},
                               /*retain_graph=*/true, /*create_graph=*/true);
      return loss + slopes[0].pow(2).sum() + slopes[1].pow(2).sum();
    });
    testing_models::expect_same_bits_with_every_strategy(make, world,
                                                         {.steps = 4, .micro_batches = 2 * world.size(), .clip = 0.5});
  });
}

}  // namespace
}  // namespace fsdp
