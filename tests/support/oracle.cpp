#include "support/oracle.h"

#include <cstring>

#include "optim/norm.h"

namespace fsdp::testing_models {

namespace {

using Tensors = std::vector<torch::Tensor>;

Tensors sum_of_gradients(const TestModel& model, const Tensors& parameters, int64_t first, int64_t count) {
  Tensors sum(parameters.size());
  for (int64_t b = first; b < first + count; ++b) {
    for (const auto& parameter : parameters) parameter.mutable_grad().reset();
    model.loss(b).backward();
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].grad().defined()) continue;
      if (sum[i].defined()) {
        sum[i].add_(parameters[i].grad());
      } else {
        sum[i] = parameters[i].grad().clone();
      }
    }
  }
  return sum;
}

void scale(const Tensors& gradients, float factor) {
  for (const auto& gradient : gradients) {
    if (gradient.defined()) gradient.mul_(factor);
  }
}

void clip(const Tensors& gradients, double max_norm) {
  optim::NormSum norm(2.0);
  for (const auto& gradient : gradients) {
    if (gradient.defined()) norm.add({gradient.contiguous().data_ptr<float>(), size_t(gradient.numel())});
  }
  const double factor = max_norm / (norm.norm() + 1e-6);
  if (factor < 1) scale(gradients, static_cast<float>(factor));
}

}  // namespace

Weights train_unsharded(const TestModel& model, const Training& training) {
  Weights weights;
  Tensors parameters, first, second, steps;
  for (const auto& parameter : model.module->named_parameters()) {
    weights.emplace_back(parameter.key(), parameter.value());
    parameters.push_back(parameter.value());
    first.push_back(torch::zeros_like(parameter.value()).detach());
    second.push_back(torch::zeros_like(parameter.value()).detach());
    steps.push_back(torch::zeros({}));
  }
  for (int step = 0; step < training.steps; ++step) {
    Tensors sum = sum_of_gradients(model, parameters, step * training.micro_batches, training.micro_batches);
    torch::NoGradGuard no_grad;
    scale(sum, static_cast<float>(1.0 / static_cast<double>(training.micro_batches)));
    if (training.clip > 0) clip(sum, training.clip);
    for (auto& count : steps) count.add_(1);
    at::_fused_adamw_(parameters, sum, first, second, {}, steps, training.lr, 0.9, 0.999, 1e-2, 1e-8, false, false);
  }
  for (auto& weight : weights) weight.second = weight.second.detach().clone();
  return weights;
}

std::vector<std::string> differences(const Weights& expected, const Weights& found) {
  std::vector<std::string> names;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto a = expected[i].second.contiguous(), b = found[i].second.contiguous();
    const bool same = expected[i].first == found[i].first && a.sizes() == b.sizes() &&
                      std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
    if (!same) names.push_back(expected[i].first);
  }
  return names;
}

}  // namespace fsdp::testing_models
