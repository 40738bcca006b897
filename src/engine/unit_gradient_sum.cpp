#include "engine/unit_gradient_sum.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "interpose/piece_storage.h"

namespace fsdp::engine {

UnitGradientSum::UnitGradientSum(const layout::UnitLayout& layout, int rank, std::vector<torch::Tensor> pieces,
                                 std::shared_ptr<interpose::Link> link)
    : layout_(layout),
      rank_(rank),
      pieces_(std::move(pieces)),
      link_(std::move(link)),
      gradient_layout_(layout, std::vector<uint8_t>(layout.parameters())) {
  sum_.held.assign(pieces_.size(), 0);
}

void UnitGradientSum::open(std::vector<uint8_t> trainable) {
  // A sum that the user dropped by resetting a piece's grad is dropped here too.
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (!pieces_[i].grad().defined()) sum_.held[i] = 0;
    trainable[i] |= sum_.held[i];
  }
  if (trainable != gradient_layout_.wanted() || !sum_.values.defined()) change_layout(std::move(trainable));
}

// Parameters may have been frozen or unfrozen since the last backward; what was summed up to then stays.
void UnitGradientSum::change_layout(std::vector<uint8_t> wanted) {
  const layout::GradientLayout before = std::exchange(gradient_layout_, {layout_, std::move(wanted)});
  const auto options = torch::dtype(torch::kFloat32).device(pieces_.at(0).device());
  const torch::Tensor values =
      std::exchange(sum_.values, torch::zeros({gradient_layout_.shard_of(rank_).numel()}, options));
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (!sum_.held[i]) continue;
    const layout::Range from = before.piece_of(i, rank_), to = gradient_layout_.piece_of(i, rank_);
    sum_.values.slice(0, to.begin, to.end).copy_(values.slice(0, from.begin, from.end));
    pieces_[i].mutable_grad().reset();
  }
  show();
}

void UnitGradientSum::show() {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (!sum_.held[i] || pieces_[i].grad().defined()) continue;
    const layout::Range range = gradient_layout_.piece_of(i, rank_);
    set_gradient(i, sum_.values.slice(0, range.begin, range.end));
  }
}

void UnitGradientSum::set_gradient(size_t parameter, const torch::Tensor& gradient) {
  pieces_[parameter].mutable_grad() = interpose::watched(gradient, interpose::PieceStorage::Holds::Gradients, link_);
  refuse_access(pieces_[parameter].grad());
}

void UnitGradientSum::refuse_access(const torch::Tensor& gradient) const {
  interpose::PieceStorage* storage = interpose::PieceStorage::of(gradient);
  if (storage == nullptr || !divided_later_) return;
  storage->refuse_access(
      message_prefix() +
      "the bytes of a piece's gradient were asked for (data_ptr or accessor) while backwards may still add to it: they "
      "are not divided by the number of ranks yet. Read it by an operator, such as piece.grad().clone(), which ends "
      "the sum, or call sharded.clip_grad_norm_() before.");
}

void UnitGradientSum::allow_access() {
  for (const torch::Tensor& piece : pieces_) {
    const torch::Tensor& gradient = piece.grad();
    interpose::PieceStorage* storage = gradient.defined() ? interpose::PieceStorage::of(gradient) : nullptr;
    if (storage != nullptr) storage->allow_access();
  }
}

void UnitGradientSum::add_kept(UnitGradients& gradients) {
  allow_access();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const torch::Tensor kept = gradients.take_kept(static_cast<int>(i));
    if (!kept.defined()) continue;
    const torch::Tensor flat = kept.as_strided({kept.numel()}, {1});
    if (pieces_[i].grad().defined()) {
      pieces_[i].mutable_grad().add_(flat);
    } else {
      set_gradient(i, flat.to(torch::kFloat32));
    }
  }
  for (const torch::Tensor& piece : pieces_) {
    if (piece.grad().defined()) refuse_access(piece.grad());
  }
}

void UnitGradientSum::drop() {
  for (torch::Tensor& piece : pieces_) piece.mutable_grad().reset();
  std::fill(sum_.held.begin(), sum_.held.end(), 0);
  if (sum_.values.defined() && sum_.values.storage().use_count() > 1) sum_.values.reset();
}

void UnitGradientSum::give_back() {
  drop();
  sum_.values.reset();
}

bool UnitGradientSum::any() const {
  return std::any_of(pieces_.begin(), pieces_.end(), [](const torch::Tensor& piece) { return piece.grad().defined(); });
}

int64_t UnitGradientSum::bytes() const {
  if (sum_.values.defined()) return static_cast<int64_t>(sum_.values.nbytes());
  int64_t bytes = 0;
  for (const torch::Tensor& piece : pieces_) bytes += piece.grad().defined() ? piece.grad().nbytes() : 0;
  return bytes;
}

}  // namespace fsdp::engine
