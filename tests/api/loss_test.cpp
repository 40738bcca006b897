// linear_cross_entropy against torch::nn::functional::cross_entropy of whole logits, and against finite differences.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "api/logit_passes.h"
#include "api/loss_cases.h"
#include "support/threads.h"

namespace fsdp::loss_cases {
namespace {

// All numbers are below 100, sums have up to 131 terms: some hundred roundings of 1e-16 times 100.
TEST(LinearCrossEntropy, IsCrossEntropyOfTheLogits) {
  const Inputs inputs = inputs_of();
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Tensor loss = linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets, one.options);
    expect_close(outcome_of(inputs, loss), outcome_of(inputs, reference(inputs, one.options)), 1e-11);
  }
}

// As above, with roundings of 1e-7.
TEST(LinearCrossEntropy, IsAsExactInSinglePrecision) {
  const Inputs exact = inputs_of(torch::kFloat32).as(torch::kFloat64), inputs = exact.as(torch::kFloat32);
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Tensor loss = linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets, one.options);
    EXPECT_EQ(loss.scalar_type(), torch::kFloat32);
    expect_close(outcome_of(inputs, loss), outcome_of(exact, reference(exact, one.options)), 1e-3);
  }
}

// Logits below 16 are rounded by up to 2^-5 in 8 bits, and so are losses, times the factors and options up to 10.
TEST(LinearCrossEntropy, Of16BitsHasItsSumsInSinglePrecision) {
  const Inputs inputs = inputs_of(torch::kBFloat16), exact = inputs.as(torch::kFloat64);
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Tensor loss = linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets, one.options);
    EXPECT_EQ(loss.scalar_type(), torch::kFloat32);
    const Outcome found = outcome_of(inputs, loss);
    EXPECT_EQ(found.of_hidden.scalar_type(), torch::kBFloat16);
    EXPECT_EQ(found.of_weight.scalar_type(), torch::kBFloat16);
    expect_close(found, outcome_of(exact, reference(exact, one.options)), 0.5);
  }
}

// A mean of 16,384 losses of 5 would stop at 2048 in bf16.
TEST(LinearCrossEntropy, Of16BitsSumsManyLosses) {
  const Tensor hidden = torch::zeros({16384, 4}, torch::kBFloat16), weight = torch::zeros({128, 4}, torch::kBFloat16);
  const Tensor loss = linear_cross_entropy(hidden, weight, torch::zeros({16384}, torch::kInt64));
  EXPECT_NEAR(loss.item<double>(), std::log(128), 1e-5);
}

// The slope along a random direction. A central difference of step h is wrong by h^2 and by 1e-16 / h.
TEST(LinearCrossEntropy, HasTheSlopesOfFiniteDifferences) {
  const Inputs inputs = inputs_of();
  const Inputs direction{torch::randn_like(inputs.hidden), torch::randn_like(inputs.weight), {}};
  constexpr double kStep = 1e-5;
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const auto value_at = [&](double distance) {
      const torch::NoGradGuard no_grad;
      return linear_cross_entropy(inputs.hidden + distance * direction.hidden,
                                  inputs.weight + distance * direction.weight, inputs.targets, one.options)
          .sum();
    };
    const Tensor loss = linear_cross_entropy(inputs.hidden, inputs.weight, inputs.targets, one.options).sum();
    const auto slopes = torch::autograd::grad({loss}, {inputs.hidden, inputs.weight});
    const Tensor slope = (slopes[0] * direction.hidden).sum() + (slopes[1] * direction.weight).sum();
    EXPECT_LT(distance(slope, (value_at(kStep) - value_at(-kStep)) / (2 * kStep)), 1e-6);
  }
}

// A loss far below the roundings of its logits.
TEST(LinearCrossEntropy, OfANearlyCertainTargetIsExact) {
  const Tensor hidden = torch::full({1, 1}, 1.0), weight = torch::tensor({{1000.0F}, {986.0F}});
  const Tensor loss = linear_cross_entropy(hidden, weight, torch::zeros({1}, torch::kInt64), {.chunk_bytes = 1});
  EXPECT_NEAR(loss.item<double>() / std::log1p(std::exp(-14)), 1, 0.1);  // exp(-14) beside 1: 8e-7, of steps of 1.2e-7
}

TEST(LinearCrossEntropy, TakesTensorsOfAnyStridesAndShapes) {
  const Inputs made = inputs_of();
  const std::vector<Inputs> all{
      {made.hidden.transpose(0, 1), made.weight, made.targets.t()},
      {made.hidden.flatten(0, 1), made.weight, made.targets.flatten()},
      {made.hidden[1][2], made.weight, made.targets[1][2]},
      {made.hidden, made.weight.t().contiguous().t(), made.targets},
      {made.hidden, made.weight.slice(0, 0, 262, 2), made.targets.div(2, "floor")},
      {made.hidden.slice(0, 0, 1).expand({3, -1, -1}), made.weight, made.targets[0].expand({3, -1})}};
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    const LinearCrossEntropyOptions options{.reduction = LossReduction::None, .chunk_bytes = 5000};
    const Tensor loss = linear_cross_entropy(all[i].hidden, all[i].weight, all[i].targets, options);
    Tensor expected = torch::nn::functional::cross_entropy(
        all[i].hidden.matmul(all[i].weight.t()).reshape({-1, all[i].weight.size(0)}), all[i].targets.flatten(),
        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
    expect_close(outcome_of(made, loss), outcome_of(made, expected.view(all[i].targets.sizes())), 1e-11);
  }
}

TEST(LinearCrossEntropy, OfNothingIsZero) {
  const Tensor weight = torch::randn({5, 3}, torch::requires_grad());
  const Tensor none = torch::randn({0, 3}, torch::requires_grad()), some = torch::randn({2, 3}, torch::requires_grad());
  const auto expect_nothing = [&](const Tensor& hidden, const Tensor& targets) {
    for (const auto reduction : {LossReduction::Mean, LossReduction::Sum, LossReduction::None}) {
      const Tensor loss = linear_cross_entropy(hidden, weight, targets, {.z_loss = 1, .reduction = reduction}).sum();
      EXPECT_EQ(loss.item<double>(), 0);
      const auto gradients = torch::autograd::grad({loss}, {hidden, weight});
      EXPECT_TRUE(torch::equal(gradients[0], torch::zeros_like(hidden)));
      EXPECT_TRUE(torch::equal(gradients[1], torch::zeros_like(weight)));
    }
  };
  expect_nothing(none, torch::zeros({0}, torch::kInt64));
  expect_nothing(some, torch::full({2}, -100));
}

// The passes alone: LibTorch's products may have other bits.
TEST(LinearCrossEntropy, HasPassesOfTheBitsOfOneThreadOnSeveral) {
  constexpr int64_t kRows = 301, kColumns = 1000;
  torch::manual_seed(3);
  const Tensor logits = torch::randn({kRows, kColumns}), target = torch::randint(kColumns, {kRows}, torch::kInt64);
  const LogitGradient gradient{.largest = torch::randn({kRows}),
                               .factor = torch::randn({kRows}),
                               .everywhere = torch::randn({kRows}),
                               .at_target = torch::randn({kRows})};
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    std::vector<std::vector<Tensor>> found;
    for (int count : {1, 2, 3}) {
      const fsdp::testing::Threads threads(count);
      const LogitChunk chunk{.logits = logits.to(dtype, /*non_blocking=*/false, /*copy=*/true), .target = target};
      RowStatistics rows = statistics_of_no_logits(chunk.logits, /*with_total=*/true);
      add_to(rows, chunk);
      make_gradient(chunk, gradient);
      found.push_back({rows.exponentials.largest, rows.exponentials.sum, rows.of_target, rows.total, chunk.logits});
      for (size_t i = 0; i < found[0].size(); ++i) EXPECT_TRUE(torch::equal(found.back()[i], found[0][i])) << count;
    }
    EXPECT_FALSE(torch::equal(found[0].back(), logits.to(dtype)));
  }
}

}  // namespace
}  // namespace fsdp::loss_cases
