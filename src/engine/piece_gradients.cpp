#include "engine/piece_gradients.h"

#include <torch/utils.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "interpose/piece_storage.h"

namespace fsdp::engine {

void PieceGradients::open(Unit& unit) {
  // A sum that the user dropped by resetting a piece's grad is dropped here too.
  for (size_t i = 0; i < unit.sum.held.size(); ++i) {
    if (!piece_of(unit, i).grad().defined()) unit.sum.held[i] = 0;
  }
  lay_out(unit);
}

// Parameters may have been frozen or unfrozen since the last backward; what was summed up to then stays.
void PieceGradients::lay_out(Unit& unit) {
  std::vector<uint8_t> wanted = unit.trainable();
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] |= unit.sum.held[i];
  const bool same = wanted == unit.gradient_layout.wanted();
  if (same && unit.sum.values.defined()) return;
  const layout::GradientLayout before = std::exchange(unit.gradient_layout, {unit.layout, std::move(wanted)});
  const int64_t numel = unit.gradient_layout.shard_of(rank_).numel();
  const torch::Tensor values =
      std::exchange(unit.sum.values, torch::zeros({numel}, torch::dtype(torch::kFloat32).device(device_)));
  for (size_t i = 0; i < unit.sum.held.size(); ++i) {
    if (!unit.sum.held[i]) continue;
    const layout::Range from = before.piece_of(i, rank_), to = unit.gradient_layout.piece_of(i, rank_);
    unit.sum.values.slice(0, to.begin, to.end).copy_(values.slice(0, from.begin, from.end));
    piece_of(unit, i).mutable_grad().reset();
  }
  show(unit);
}

void PieceGradients::show(Unit& unit) {
  for (size_t i = 0; i < unit.sum.held.size(); ++i) {
    torch::Tensor& piece = piece_of(unit, i);
    if (!unit.sum.held[i] || piece.grad().defined()) continue;
    const layout::Range range = unit.gradient_layout.piece_of(i, rank_);
    set_gradient(piece, unit.sum.values.slice(0, range.begin, range.end));
  }
}

void PieceGradients::set_gradient(torch::Tensor& piece, const torch::Tensor& gradient) {
  piece.mutable_grad() = interpose::watched(gradient, interpose::PieceStorage::Holds::Gradients, link_);
  guard(piece.grad());
}

// An operator that reads the gradient ends the sum first; who reads the bytes past us would have it undivided.
void PieceGradients::guard(const torch::Tensor& gradient) const {
  interpose::PieceStorage* storage = interpose::PieceStorage::of(gradient);
  if (storage == nullptr || closing_factors().empty()) return;
  storage->refuse_access(
      message_prefix() +
      "the bytes of a piece's gradient were asked for (data_ptr or accessor) while backwards may still add to it: they "
      "are not divided by the number of ranks yet. Read it by an operator, such as piece.grad().clone(), which ends "
      "the "
      "sum, or call sharded.clip_grad_norm_() before.");
}

void PieceGradients::allow_access(std::span<const ShardedParameter> parameters) {
  for (const ShardedParameter& parameter : parameters) {
    const torch::Tensor& gradient = parameter.piece.grad();
    interpose::PieceStorage* storage = gradient.defined() ? interpose::PieceStorage::of(gradient) : nullptr;
    if (storage != nullptr) storage->allow_access();
  }
}

void PieceGradients::add_kept(Unit& unit) {
  for (size_t i = 0; i < unit.parameters.size(); ++i) {
    const torch::Tensor kept = unit.gradients.take_kept(static_cast<int>(i));
    if (!kept.defined()) continue;
    torch::Tensor& piece = piece_of(unit, i);
    const torch::Tensor flat = kept.as_strided({kept.numel()}, {1});
    if (!piece.grad().defined()) {
      set_gradient(piece, flat.to(torch::kFloat32));
      continue;
    }
    allow_access({&parameter_of(unit, i), 1});
    piece.mutable_grad().add_(flat);
    guard(piece.grad());
  }
}

void PieceGradients::drop(Unit& unit) {
  for (size_t i = 0; i < unit.parameters.size(); ++i) piece_of(unit, i).mutable_grad().reset();
  std::fill(unit.sum.held.begin(), unit.sum.held.end(), 0);
}

bool PieceGradients::any() const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [](const ShardedParameter& parameter) { return parameter.piece.grad().defined(); });
}

void PieceGradients::check_open() {
  if (closed_ && !any()) reopen();
  FSDP_CHECK(!closed_,
             "a backward came after clipping or a step had ended the sum of the gradients. Call zero_grad() first.");
}

void PieceGradients::close() {
  if (std::exchange(closed_, true)) return;
  factors_ = closing_factors();
}

void PieceGradients::reopen() {
  closed_ = false;
  factors_.clear();
}

std::vector<float> PieceGradients::closing_factors() const {
  const auto factor = static_cast<float>(1.0 / divisor_);
  return factor == 1.0f ? std::vector<float>{} : std::vector{factor};
}

void PieceGradients::scale(float factor) {
  if (factor != 1.0f) factors_.push_back(factor);
}

std::vector<float> PieceGradients::take_factors() {
  allow_access(parameters_);
  return std::exchange(factors_, {});
}

void PieceGradients::scale_now() {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  for (float factor : take_factors()) {
    for (auto& parameter : parameters_) {
      if (parameter.piece.grad().defined()) parameter.piece.mutable_grad().mul_(factor);
    }
  }
}

}  // namespace fsdp::engine
