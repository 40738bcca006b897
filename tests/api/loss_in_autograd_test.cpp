// linear_cross_entropy as an operator among others: in graphs, under autocast, and on the parameter of a unit.
#include <ATen/autocast_mode.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <limits>
#include <utility>

#include "api/loss_cases.h"
#include "interpose/parameters.h"
#include "support/message_of.h"

namespace fsdp::loss_cases {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LinearCrossEntropy, GivesARetainedGraphsGradientsTwice) {
  const Inputs inputs = inputs_of(torch::kFloat32);
  const Tensor loss = linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets, {.chunk_bytes = 2000});
  loss.backward({}, /*retain_graph=*/true);
  const Tensor of_hidden = inputs.hidden.grad().clone(), of_weight = inputs.weight.grad().clone();
  loss.backward();
  EXPECT_TRUE(torch::equal(inputs.hidden.grad(), 2 * of_hidden));
  EXPECT_TRUE(torch::equal(inputs.weight.grad(), 2 * of_weight));
}

TEST(LinearCrossEntropy, MakesTheGradientsThatAreAskedFor) {
  const Inputs inputs = inputs_of();
  const auto gradients_of = [&](const Tensor& hidden, const Tensor& weight) {
    inputs.hidden.mutable_grad().reset();
    inputs.weight.mutable_grad().reset();
    linear_cross_entropy(hidden, weight, inputs.targets, {.chunk_bytes = 2000}).backward();
    return std::pair(inputs.hidden.grad(), inputs.weight.grad());
  };
  const auto both = gradients_of(inputs.hidden, inputs.weight);
  const auto hidden = gradients_of(inputs.hidden, inputs.weight.detach());
  const auto weight = gradients_of(inputs.hidden.detach(), inputs.weight);
  EXPECT_TRUE(torch::equal(hidden.first, both.first) && !hidden.second.defined());
  EXPECT_TRUE(torch::equal(weight.second, both.second) && !weight.first.defined());
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets).requires_grad());
}

TEST(LinearCrossEntropy, IsNotSeenByAutocast) {
  const Inputs inputs = inputs_of(torch::kFloat32);
  const auto make = [&] { return linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets); };
  const Outcome expected = outcome_of(inputs, make());
  at::autocast::set_autocast_enabled(torch::kCPU, true);
  const Outcome found = outcome_of(inputs, make());
  at::autocast::set_autocast_enabled(torch::kCPU, false);
  expect_close(found, expected, std::numeric_limits<double>::min());
}

TEST(LinearCrossEntropy, IsAUseForTheOrderOfUse) {
  const Inputs inputs = inputs_of();
  torch::nn::Module module;
  module.register_parameter("head", inputs.weight);
  EXPECT_THAT(order_of_use(module, [&] { linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets); }),
              ElementsAre("head"));
}

TEST(LinearCrossEntropy, HasNoSecondDerivative) {
  const Inputs inputs = inputs_of();
  const Tensor loss = linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets);
  EXPECT_THAT(message_of([&] { loss.backward({}, /*retain_graph=*/true, /*create_graph=*/true); }),
              AllOf(HasSubstr("create_graph"), HasSubstr("no second derivative")));
}

// Weight 0 of unit 0, which has a place for its gradient. There is no engine: a recorder stands for it.
class LinearCrossEntropyOfAUnit : public ::testing::Test {
 protected:
  interpose::Recorder recorder;
  Tensor weight = torch::randn({31, 4}, torch::requires_grad());
  Tensor plain = weight.detach().clone().requires_grad_();
  Tensor hidden = torch::randn({6, 4}, torch::requires_grad()), targets = torch::arange(6);
  interpose::Unit unit{recorder, 0, {weight}};
  LinearCrossEntropyOptions options{.chunk_bytes = 200};
};

TEST_F(LinearCrossEntropyOfAUnit, TakesItOncePerPassAndWritesItsGradientInPlace) {
  recorder.places[{0, 0}] = torch::full({31, 4}, -1.0);
  recorder.touches.clear();
  const Tensor loss = linear_cross_entropy(hidden, weight, targets, options);
  EXPECT_THAT(recorder.touches, ElementsAre("fsdp::linear_cross_entropy 0"));
  loss.backward();
  EXPECT_THAT(recorder.touches, ElementsAre("fsdp::linear_cross_entropy 0", "fsdp::linear_cross_entropy_backward 0"));
  EXPECT_TRUE(recorder.arrived_in_place.contains({0, 0}));
  const Tensor of_hidden = hidden.grad().clone();
  hidden.mutable_grad().reset();
  const Tensor expected = linear_cross_entropy(hidden, plain, targets, options);
  expected.backward();
  EXPECT_TRUE(torch::equal(loss, expected));
  EXPECT_TRUE(torch::equal(of_hidden, hidden.grad()));
  EXPECT_TRUE(torch::equal(recorder.gradients.at({0, 0}).at(0), plain.grad()));
}

// A view's gradient is not the parameter's.
TEST_F(LinearCrossEntropyOfAUnit, TakesViewsOfIt) {
  recorder.places[{0, 0}] = torch::full({31, 4}, -1.0);
  const Tensor narrow = torch::randn({4, 31});
  linear_cross_entropy(narrow, weight.t(), torch::arange(4), options).backward();
  linear_cross_entropy(narrow, plain.t(), torch::arange(4), options).backward();
  EXPECT_TRUE(torch::equal(recorder.gradients.at({0, 0}).at(0), plain.grad()));
}

TEST_F(LinearCrossEntropyOfAUnit, LeavesThePlaceAloneWhereTheUserAsks) {
  recorder.places[{0, 0}] = torch::full({31, 4}, -1.0);
  const auto found = torch::autograd::grad({linear_cross_entropy(hidden, weight, targets, options)}, {weight});
  const auto expected = torch::autograd::grad({linear_cross_entropy(hidden, plain, targets, options)}, {plain});
  EXPECT_TRUE(torch::equal(found[0], expected[0]));
  EXPECT_TRUE(torch::equal(recorder.places[{0, 0}], torch::full({31, 4}, -1.0)));
}

TEST_F(LinearCrossEntropyOfAUnit, LetsItGoAfterAnError) {
  recorder.refuse = "everything";
  EXPECT_THAT(message_of([&] { linear_cross_entropy(hidden, weight, targets, options); }), HasSubstr("refused"));
  recorder.refuse.clear();
  EXPECT_TRUE(torch::equal(linear_cross_entropy(hidden, weight, targets, options),
                           linear_cross_entropy(hidden, plain, targets, options)));
  EXPECT_EQ(recorder.events.back(), "end 0");
}

}  // namespace
}  // namespace fsdp::loss_cases
