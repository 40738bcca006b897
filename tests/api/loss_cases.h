// Inputs and options of linear_cross_entropy for tests, and how its losses and gradients are compared with others.
#pragma once

#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::loss_cases {

using torch::Tensor;

// Odd numbers, of which no chunk is a divisor.
inline constexpr int64_t kTargets = 15, kHiddenWidth = 7, kEntries = 131;

struct Inputs {
  Tensor hidden, weight, targets;
  Inputs as(torch::ScalarType dtype) const {
    return {hidden.detach().to(dtype).requires_grad_(), weight.detach().to(dtype).requires_grad_(), targets};
  }
};

inline Inputs inputs_of(torch::ScalarType dtype = torch::kFloat64) {
  torch::manual_seed(11);
  Inputs made{torch::randn({3, kTargets / 3, kHiddenWidth}), torch::randn({kEntries, kHiddenWidth}),
              torch::randint(kEntries, {3, kTargets / 3}, torch::kInt64)};
  made.targets[0][0] = 0;
  made.targets[2][1] = kEntries - 1;
  return made.as(dtype);
}

inline Tensor reference(const Inputs& inputs, const LinearCrossEntropyOptions& options) {
  namespace F = torch::nn::functional;
  const Tensor logits = inputs.hidden.matmul(inputs.weight.t()).flatten(0, -2), targets = inputs.targets.flatten();
  Tensor losses = F::cross_entropy(logits, targets,
                                   F::CrossEntropyFuncOptions()
                                       .ignore_index(options.ignore_index)
                                       .label_smoothing(options.label_smoothing)
                                       .reduction(torch::kNone));
  const Tensor counted = targets != options.ignore_index;
  losses = losses + options.z_loss * logits.logsumexp(1).square() * counted;
  if (options.reduction == LossReduction::Sum) return losses.sum();
  if (options.reduction == LossReduction::Mean) return losses.sum() / counted.sum();
  return losses.view(inputs.targets.sizes());
}

struct Case {
  std::string name;
  LinearCrossEntropyOptions options;
};

// Each with room for the logits of one entry, of some, of several chunks of 64, and of all in one chunk.
inline std::vector<Case> cases() {
  const std::vector<Case> kinds{
      {"plain", {}},
      {"ignored", {.ignore_index = 0}},
      {"smooth", {.label_smoothing = 0.1}},
      {"all smooth", {.label_smoothing = 1}},
      {"z", {.z_loss = 0.01}},
      {"sum", {.reduction = LossReduction::Sum}},
      {"none", {.reduction = LossReduction::None}},
      {"all", {.ignore_index = 0, .label_smoothing = 0.2, .z_loss = 0.1, .reduction = LossReduction::None}},
      {"all, mean", {.ignore_index = 0, .label_smoothing = 0.2, .z_loss = 0.1}}};
  std::vector<Case> all;
  for (const Case& kind : kinds) {
    for (int64_t columns : {1, 40, 500, 2000}) {
      all.push_back({fmt::format("{}, room for {} entries", kind.name, columns), kind.options});
      all.back().options.chunk_bytes = columns * kTargets * 8;
    }
  }
  return all;
}

struct Outcome {
  Tensor loss, of_hidden, of_weight;
};

// Of a sum in which each loss has a weight of its own.
inline Outcome outcome_of(const Inputs& inputs, const Tensor& loss) {
  const Tensor factors = torch::linspace(-2, 3, loss.numel(), loss.options()).view(loss.sizes()) + 0.25;
  const auto gradients = torch::autograd::grad({(loss * factors).sum()}, {inputs.hidden, inputs.weight});
  return {loss.detach(), gradients[0], gradients[1]};
}

inline double distance(const Tensor& found, const Tensor& expected) {
  return (found.to(torch::kFloat64) - expected.to(torch::kFloat64)).abs().max().item<double>();
}

inline void expect_close(const Outcome& found, const Outcome& expected, double tolerance) {
  EXPECT_EQ(found.loss.sizes(), expected.loss.sizes());
  EXPECT_LT(distance(found.loss, expected.loss), tolerance);
  EXPECT_LT(distance(found.of_hidden, expected.of_hidden), tolerance);
  EXPECT_LT(distance(found.of_weight, expected.of_weight), tolerance);
}

}  // namespace fsdp::loss_cases
