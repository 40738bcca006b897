// The sum of the gradients over ranks and micro-batches, and how it ends (docs/determinism.md).
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "engine/model.h"

namespace fsdp::engine {

// Parameters may have been frozen or unfrozen since the last backward; what was summed up to then stays.
void Model::lay_out_sum(Unit& unit) {
  const int rank = group_->rank();
  std::vector<uint8_t> wanted = unit.trainable();
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] |= unit.sum.held[i];
  const bool same = wanted == unit.gradient_layout.wanted();
  if (same && unit.sum.values.defined()) return;
  const layout::GradientLayout before = std::exchange(unit.gradient_layout, {unit.layout, std::move(wanted)});
  const torch::Tensor values = std::exchange(
      unit.sum.values, torch::zeros({unit.gradient_layout.shard_of(rank).numel()}, on_device(torch::kFloat32)));
  for (size_t i = 0; i < unit.sum.held.size(); ++i) {
    if (!unit.sum.held[i]) continue;
    const layout::Range from = before.piece_of(i, rank), to = unit.gradient_layout.piece_of(i, rank);
    unit.sum.values.slice(0, to.begin, to.end).copy_(values.slice(0, from.begin, from.end));
    parameters_[unit.first_piece + i].piece.mutable_grad().reset();
  }
  show_sum(unit);
}

// Makes what the sum holds visible as the pieces' gradients.
void Model::show_sum(Unit& unit) {
  for (size_t i = 0; i < unit.sum.held.size(); ++i) {
    torch::Tensor& piece = parameters_[unit.first_piece + i].piece;
    if (!unit.sum.held[i] || piece.grad().defined()) continue;
    const layout::Range range = unit.gradient_layout.piece_of(i, group_->rank());
    show(piece, unit.sum.values.slice(0, range.begin, range.end));
  }
}

void Model::show(torch::Tensor& piece, const torch::Tensor& gradient) {
  piece.mutable_grad() = interpose::watched(gradient, interpose::PieceStorage::Holds::Gradients, link_);
}

void Model::add_kept(Unit& unit) {
  for (size_t i = 0; i < unit.parameters.size(); ++i) {
    const torch::Tensor kept = unit.gradients.take_kept(static_cast<int>(i));
    if (!kept.defined()) continue;
    torch::Tensor& piece = parameters_[unit.first_piece + i].piece;
    const torch::Tensor flat = kept.as_strided({kept.numel()}, {1});
    piece.grad().defined() ? void(piece.mutable_grad().add_(flat)) : show(piece, flat.to(torch::kFloat32));
  }
}

void Model::check_open() {
  if (closed_ && !holds_gradients()) end_sum();
  FSDP_CHECK(!closed_,
             "a backward came after clipping or a step had ended the sum of the gradients. Call zero_grad() first.");
}

void Model::close_gradients() {
  std::lock_guard lock(mutex_);
  note_mode();
  if (!failure_.empty()) throw Error(failure_);
  FSDP_CHECK(!step_.begun(),
             "this step's optimizer ran inside the backward (step_in_backward): gradients are gone, and cannot be "
             "clipped, unscaled or read any more. Leave step_in_backward() out of steps that need them.");
  close();
}

void Model::close() {
  reduce_open();
  FSDP_CHECK(no_sync_ == 0,
             "the gradients are still each rank's own inside no_sync(). End the scope before clipping or a step.");
  FSDP_CHECK(holds_gradients() || step_.stepped_any(),
             "there is no gradient to clip or to step with. Call backward first.");
  if (closed_) return;
  closed_ = true;
  factors_ = closing_factors();
}

std::vector<float> Model::closing_factors() const {
  const auto factor = static_cast<float>(1.0 / divisor_);
  return factor == 1.0f ? std::vector<float>{} : std::vector{factor};
}

void Model::scale_gradients(float factor) {
  if (factor != 1.0f) factors_.push_back(factor);
}

std::vector<float> Model::take_factors() { return std::exchange(factors_, {}); }

void Model::scale_now() {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  for (float factor : take_factors()) {
    for (auto& parameter : parameters_) {
      if (parameter.piece.grad().defined()) parameter.piece.mutable_grad().mul_(factor);
    }
  }
}

void Model::set_gradient_divisor(double divisor) {
  FSDP_CHECK(divisor > 0 && std::isfinite(divisor), "set_gradient_divisor: found {}, expected a finite positive number",
             divisor);
  check_step_ended("set_gradient_divisor");
  divisor_ = divisor;
}

void Model::begin_no_sync() {
  std::lock_guard lock(mutex_);
  ++no_sync_;
  schedule_->set_local(true);
}

void Model::end_no_sync() noexcept {
  std::lock_guard lock(mutex_);
  schedule_->set_local(--no_sync_ > 0);
}

void Model::zero_grad() {
  std::lock_guard lock(mutex_);
  note_mode();  // one that threw leaves nothing behind
  check_no_step_begun("zero_grad");
  if (unreduced_) abandon_backward();
  unreduced_ = false;
  for (auto& parameter : parameters_) parameter.piece.mutable_grad().reset();
  for (auto& unit : units_) std::fill(unit->sum.held.begin(), unit->sum.held.end(), 0);
  end_sum();
}

void Model::end_sum() {
  closed_ = false;
  factors_.clear();
}

bool Model::holds_gradients() const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [](const ShardedParameter& parameter) { return parameter.piece.grad().defined(); });
}

bool Model::trainable(size_t parameter) const {
  const auto behind = std::upper_bound(units_.begin(), units_.end(), parameter,
                                       [](size_t index, const auto& unit) { return index < unit->first_piece; });
  const Unit& unit = **std::prev(behind);
  return unit.parameters[parameter - unit.first_piece].tensor().requires_grad();
}

}  // namespace fsdp::engine
