#include "engine/model_gradients.h"

#include <algorithm>
#include <cmath>

#include "interpose/piece_gradient.h"
#include "interpose/piece_storage.h"

namespace fsdp::engine {

using Sum = interpose::PieceStorage::Sum;

void ModelGradients::end() {
  const std::vector<float> factors = closing_factors();
  factors_.assign(factors.begin(), factors.end());
  if (factors.empty() || !any_partly_ended()) return;
  for (auto& unit : units_) unit->sum.scale_open(factors[0]);
  factors_.clear();
}

void ModelGradients::end_sums(std::span<const interpose::GradientUse> gradients, bool zeroed) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  const std::vector<float> factors = closing_factors();
  for (const auto& [storage, written, whole] : gradients) {
    storage->allow_access();
    if (storage->sum() == Sum::Open) {
      for (float factor : factors) torch::Tensor(storage->memory()).mul_(factor);
    }
    if (written || storage->sum() == Sum::Open) storage->set_sum(zeroed && whole ? Sum::Zeroed : Sum::Ended);
  }
}

void ModelGradients::drop() {
  for (auto& unit : units_) unit->sum.drop();
  factors_.clear();
}

void ModelGradients::give_back() {
  for (auto& unit : units_) unit->sum.give_back();
}

void ModelGradients::settle() {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  for (auto& unit : units_) unit->gradients.settle();
}

void ModelGradients::forget_late() {
  for (auto& unit : units_) unit->gradients.take_late();
}

bool ModelGradients::any() const {
  return std::any_of(units_.begin(), units_.end(), [](const auto& unit) { return unit->sum.any(); });
}

bool ModelGradients::any_partly_ended() const {
  return std::any_of(units_.begin(), units_.end(), [](const auto& unit) { return unit->sum.is_partly_ended(); });
}

bool ModelGradients::are_reset() const {
  return std::ranges::all_of(units_, [](const auto& unit) { return unit->sum.is_zeroed(); });
}

void ModelGradients::set_divisor(double divisor) {
  FSDP_CHECK(divisor > 0 && std::isfinite(divisor), "set_gradient_divisor: found {}, expected a finite positive number",
             divisor);
  divisor_ = divisor;
  for (auto& unit : units_) unit->sum.set_divided_later(!closing_factors().empty());
}

std::vector<float> ModelGradients::closing_factors() const {
  const auto factor = static_cast<float>(1.0 / divisor_);
  return factor == 1.0f ? std::vector<float>{} : std::vector{factor};
}

GradientFactors ModelGradients::closing_factors_of(ShardedUnit& unit) const {
  std::vector<float> factors = closing_factors();
  if (!factors.empty() && unit.sum.is_partly_ended()) {
    unit.sum.scale_open(factors[0]);
    factors.clear();
  }
  unit.sum.end();
  return GradientFactors({factors.begin(), factors.end()}, product());
}

void ModelGradients::scale(GradientFactor factor) {
  if (const float* number = std::get_if<float>(&factor); number != nullptr && *number == 1.0f) return;
  factors_.push_back(std::move(factor));
  for (auto& unit : units_) unit->sum.refuse_access_until_scaled();
}

GradientFactors::Product ModelGradients::product() const {
  const bool in_files = std::ranges::any_of(units_, [](const auto& unit) { return unit->sum_lies_in_file(); });
  return in_files ? GradientFactors::Product::Apart : GradientFactors::Product::InPlace;
}

GradientFactors ModelGradients::factors_for_use() {
  for (auto& unit : units_) unit->sum.end();
  if (product() == GradientFactors::Product::InPlace) return GradientFactors(std::exchange(factors_, {}));
  if (!factors_.empty()) {
    for (auto& unit : units_) unit->sum.refuse_access_until_scaled();
  }
  return GradientFactors(factors_, GradientFactors::Product::Apart);
}

void ModelGradients::scale_now(const std::vector<ShardedParameter>& parameters) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  for (auto& unit : units_) unit->sum.end();
  std::vector<torch::Tensor> gradients;
  for (const ShardedParameter& parameter : parameters) {
    const torch::Tensor& gradient = interpose::gradient_of(parameter.piece);
    if (gradient.defined()) gradients.push_back(gradient);
  }
  GradientFactors(std::exchange(factors_, {})).times(std::move(gradients));
}

}  // namespace fsdp::engine
