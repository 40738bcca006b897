#include "engine/model_gradients.h"

#include <algorithm>
#include <cmath>

#include "engine/refuse.h"
#include "interpose/piece_storage.h"

namespace fsdp::engine {

using schedule::Call;
using schedule::Misuse;
using schedule::SumPhase;

void ModelGradients::check_open(std::string_view call) {
  if (machine_.sum() == SumPhase::Closed && !any()) drop();
  check_call(machine_, Call::AddGradient, call);
}

void ModelGradients::close(bool stepped) {
  if (!any() && !stepped) refuse(Misuse::NoGradient, "");
  if (machine_.sum() == SumPhase::Closed) return;
  machine_.close_sum();
  factors_ = closing_factors();
}

void ModelGradients::drop() {
  for (auto& unit : units_) unit->sum.drop();
  machine_.reset_sum();
  factors_.clear();
}

bool ModelGradients::any() const {
  return std::any_of(units_.begin(), units_.end(), [](const auto& unit) { return unit->sum.any(); });
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

void ModelGradients::scale(float factor) {
  if (factor != 1.0f) factors_.push_back(factor);
}

std::vector<float> ModelGradients::take_factors() {
  for (auto& unit : units_) unit->sum.allow_access();
  return std::exchange(factors_, {});
}

void ModelGradients::scale_now(const std::vector<ShardedParameter>& parameters) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  for (float factor : take_factors()) {
    for (const ShardedParameter& parameter : parameters) {
      if (parameter.piece.grad().defined()) torch::Tensor(parameter.piece.grad()).mul_(factor);
    }
  }
}

}  // namespace fsdp::engine
