#include "share_optimizer.h"

#include <utility>

namespace contestant {

ShareOptimizer::ShareOptimizer(std::vector<torch::Tensor> parameters, int64_t ranks, double lr)
    : parameters_(std::move(parameters)), ranks_(ranks), lr_(lr) {
  for (const torch::Tensor& parameter : parameters_) {
    shares_.push_back(share_of(parameter.detach()).to(torch::kFloat32));
    first_moments_.push_back(torch::zeros_like(shares_.back()));
    second_moments_.push_back(torch::zeros_like(shares_.back()));
    steps_.push_back(torch::zeros({}));
  }
}

void ShareOptimizer::step() {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : parameters_)
    gradients.push_back(share_of(parameter.grad()).to(torch::kFloat32));
  at::_foreach_add_(steps_, 1);
  at::_fused_adamw_(shares_, gradients, first_moments_, second_moments_, {}, steps_, lr_, /*beta1=*/0.9,
                    /*beta2=*/0.999, /*weight_decay=*/1e-2, /*eps=*/1e-8, /*amsgrad=*/false, /*maximize=*/false);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].scalar_type() != torch::kFloat32) share_of(parameters_[i].detach()).copy_(shares_[i]);
    parameters_[i].mutable_grad().reset();
  }
}

torch::Tensor ShareOptimizer::share_of(const torch::Tensor& tensor) const {
  return tensor.view({-1}).narrow(0, 0, (tensor.numel() + ranks_ - 1) / ranks_);
}

}  // namespace contestant
