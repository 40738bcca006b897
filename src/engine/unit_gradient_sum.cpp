#include "engine/unit_gradient_sum.h"

#include <ATen/ops/_foreach_add.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "interpose/piece_gradient.h"
#include "schedule/refuse.h"

namespace fsdp::engine {

using Sum = interpose::PieceStorage::Sum;

UnitGradientSum::UnitGradientSum(const layout::UnitLayout& layout, int rank, std::vector<torch::Tensor> pieces,
                                 std::shared_ptr<interpose::Link> link, buffers::Allocate allocate)
    : layout_(layout),
      rank_(rank),
      pieces_(std::move(pieces)),
      link_(std::move(link)),
      allocate_(std::move(allocate)),
      gradient_layout_(layout, std::vector<uint8_t>(layout.parameters())) {
  sum_.held.assign(pieces_.size(), 0);
}

torch::Tensor& UnitGradientSum::gradient_of(size_t parameter) const {
  return interpose::gradient_of(pieces_[parameter]);
}

interpose::PieceStorage* UnitGradientSum::storage_of(size_t parameter) const {
  return gradient_of(parameter).defined() ? interpose::PieceStorage::of(gradient_of(parameter)) : nullptr;
}

// One rank alone adds to a gradient that the user has set as autograd does, unless the sum is to be divided.
void UnitGradientSum::check_can_add(size_t parameter, const std::string& name) const {
  if (!gradient_of(parameter).defined()) return;
  const interpose::PieceStorage* storage = storage_of(parameter);
  if (storage != nullptr && storage->sum() == Sum::Ended) refuse(schedule::Misuse::BackwardAfterClose, "a gradient");
  FSDP_CHECK(storage != nullptr || (layout_.ranks() == 1 && !divided_later_),
             "a backward would add to the gradient of {}, which was set by hand: the ranks' sum is divided by their "
             "number, and a gradient set by hand is not. Set it after the last backward of the step, or add to that "
             "backward's gradient: piece.mutable_grad().add_(gradient).",
             name);
}

void UnitGradientSum::open(std::vector<uint8_t> trainable) {
  // A sum that the user dropped by resetting a piece's grad, or by setting another, is dropped here too.
  size_t shown = 0;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const bool kept = storage_of(i) != nullptr;
    if (!kept) sum_.held[i] = 0;
    if (kept) add_again(i);
    shown += kept;
    trainable[i] |= sum_.held[i];
  }
  // Gradients that the user still holds keep their values.
  const bool others_hold = sum_.values.defined() && sum_.values.storage().use_count() > 1 + shown;
  if (trainable != gradient_layout_.wanted() || others_hold) change_layout(std::move(trainable));
}

// Zeros, so that what lies between the pieces is harmless.
void UnitGradientSum::make_memory() {
  if (sum_.values.defined()) return;
  const int64_t numel = gradient_layout_.shard_of(rank_).numel();
  sum_.values = allocate_(numel * static_cast<int64_t>(sizeof(float))).view(torch::kFloat32).zero_();
}

void UnitGradientSum::leave(const torch::Tensor& gradients) {
  if (!sum_.values.is_alias_of(gradients)) return;
  const torch::Tensor values = std::exchange(sum_.values, torch::Tensor());
  make_memory();
  sum_.values.copy_(values);
}

torch::Tensor UnitGradientSum::take_idle_memory() {
  if (!sum_.values.defined() || holds_any() || sum_.values.storage().use_count() > 1) return {};
  return std::exchange(sum_.values, torch::Tensor());
}

bool UnitGradientSum::holds_any() const { return std::ranges::find(sum_.held, 1) != sum_.held.end(); }

// Parameters may have been frozen or unfrozen since the last backward; what was summed up to then stays.
void UnitGradientSum::change_layout(std::vector<uint8_t> wanted) {
  const layout::GradientLayout before = std::exchange(gradient_layout_, {layout_, std::move(wanted)});
  const torch::Tensor values = std::exchange(sum_.values, torch::Tensor());
  if (!holds_any()) return;
  make_memory();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (!sum_.held[i]) continue;
    const layout::Range from = before.piece_of(i, rank_), to = gradient_layout_.piece_of(i, rank_);
    const torch::Tensor moved = sum_.values.slice(0, to.begin, to.end);
    moved.copy_(values.slice(0, from.begin, from.end));
    set_gradient(i, moved, storage_of(i)->sum());
  }
}

void UnitGradientSum::show() {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (!sum_.held[i] || gradient_of(i).defined()) continue;
    const layout::Range range = gradient_layout_.piece_of(i, rank_);
    set_gradient(i, sum_.values.slice(0, range.begin, range.end), Sum::Open);
  }
}

void UnitGradientSum::correct() {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (!sum_.held[i] && storage_of(i) != nullptr) gradient_of(i).reset();
  }
  show();
}

void UnitGradientSum::set_gradient(size_t parameter, const torch::Tensor& gradient, Sum sum) {
  gradient_of(parameter) = interpose::watched(gradient, interpose::PieceStorage::Holds::Gradients, link_);
  storage_of(parameter)->set_sum(sum);
  refuse_until_divided(parameter);
}

// Zeros are as good as a sum that has not begun.
void UnitGradientSum::add_again(size_t parameter) {
  if (storage_of(parameter)->sum() != Sum::Zeroed) return;
  storage_of(parameter)->set_sum(Sum::Open);
  refuse_until_divided(parameter);
}

void UnitGradientSum::refuse_until_divided(size_t parameter) {
  interpose::PieceStorage* storage = storage_of(parameter);
  if (storage == nullptr || storage->sum() != Sum::Open || !divided_later_) return;
  storage->refuse_access(message_prefix() +
                         "a program read the bytes of a piece's gradient (data_ptr or accessor) while backwards may "
                         "still add to it: they are not divided by the number of ranks yet. Read it by an operator, "
                         "such as piece.grad().clone(), which ends the sum, or call sharded.clip_grad_norm_() before.");
}

void UnitGradientSum::refuse_access_until_scaled() {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (interpose::PieceStorage* storage = storage_of(i))
      storage->refuse_access(message_prefix() +
                             "a program read the bytes of a piece's gradient (data_ptr or accessor) before they were "
                             "multiplied by the factor of clip_grad_norm_, or, in files, by one over the number of "
                             "ranks. Read the gradient by an operator, such as piece.grad().clone().");
  }
}

bool UnitGradientSum::is_finite(size_t parameter) const {
  const torch::Tensor& gradient = gradient_of(parameter);
  if (!gradient.defined() || gradient.numel() == 0) return true;
  const interpose::PieceStorage* storage = storage_of(parameter);
  return (storage != nullptr ? storage->memory() : gradient).isfinite().all().item<bool>();
}

bool UnitGradientSum::is_partly_ended() const {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const interpose::PieceStorage* storage = storage_of(i);
    if (gradient_of(i).defined() && (storage == nullptr || storage->sum() == Sum::Ended)) return true;
  }
  return false;
}

bool UnitGradientSum::is_zeroed() const {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const interpose::PieceStorage* storage = storage_of(i);
    if (gradient_of(i).defined() && (storage == nullptr || storage->sum() != Sum::Zeroed)) return false;
  }
  return true;
}

void UnitGradientSum::scale_open(float factor) {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    interpose::PieceStorage* storage = storage_of(i);
    if (storage != nullptr && storage->sum() == Sum::Open) torch::Tensor(storage->memory()).mul_(factor);
  }
}

void UnitGradientSum::end() {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    interpose::PieceStorage* storage = storage_of(i);
    if (storage == nullptr) continue;
    if (storage->sum() == Sum::Open) storage->set_sum(Sum::Ended);
    storage->allow_access();
  }
}

void UnitGradientSum::add_kept(UnitGradients& gradients) {
  gradients.settle();
  std::vector<torch::Tensor> sums, added;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const torch::Tensor kept = gradients.take_kept(static_cast<int>(i));
    if (!kept.defined()) continue;
    const torch::Tensor flat = kept.as_strided({kept.numel()}, {1}).to(pieces_[i].device());
    if (interpose::PieceStorage* storage = storage_of(i)) {
      sums.push_back(storage->memory());
      added.push_back(flat);
      add_again(i);
    } else if (gradient_of(i).defined()) {
      gradient_of(i).add_(flat);
    } else {
      set_gradient(i, flat.to(torch::kFloat32), Sum::Open);
    }
  }
  if (!sums.empty()) at::_foreach_add_(sums, added);
}

void UnitGradientSum::drop() {
  for (const torch::Tensor& piece : pieces_) interpose::gradient_of(piece).reset();
  std::fill(sum_.held.begin(), sum_.held.end(), 0);
  if (sum_.values.defined() && sum_.values.storage().use_count() > 1) sum_.values.reset();
}

void UnitGradientSum::give_back() {
  drop();
  sum_.values.reset();
}

bool UnitGradientSum::any() const {
  return std::ranges::any_of(pieces_,
                             [](const torch::Tensor& piece) { return interpose::gradient_of(piece).defined(); });
}

int64_t UnitGradientSum::bytes() const {
  if (sum_.values.defined()) return static_cast<int64_t>(sum_.values.nbytes());
  int64_t bytes = 0;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (gradient_of(i).defined()) bytes += static_cast<int64_t>(gradient_of(i).nbytes());
  }
  return bytes;
}

}  // namespace fsdp::engine
