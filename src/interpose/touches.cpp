#include "interpose/touches.h"

#include <ATen/autocast_mode.h>

#include "base/error.h"
#include "interpose/piece_storage.h"

namespace fsdp::interpose {

Touches::Others& Touches::others() {
  if (!others_) others_ = std::make_unique<Others>();
  return *others_;
}

void Touches::add_to_next(UnitStorage& storage, bool written) {
  std::unique_ptr<Touches>& next = others().next;
  if (!next) next = std::make_unique<Touches>();
  next->add(storage, written);
}

void Touches::add_other(const at::Tensor& tensor, bool written) {
  PieceStorage* storage = PieceStorage::of(tensor);
  if (storage == nullptr) {
    if (DeferredStorage* deferred = DeferredStorage::of(tensor)) others().deferred = deferred;
    return;
  }
  std::vector<PieceTouch>& pieces = others().pieces;
  auto known = std::ranges::find_if(pieces, [&](const auto& one) { return one.link == storage->link(); });
  if (known == pieces.end()) known = pieces.insert(known, {storage->link(), {}});
  if (storage->holds() == PieceStorage::Holds::Gradients) {
    known->use.gradients.push_back({storage, written, tensor.nbytes() == storage->nbytes()});
  } else {
    known->use.writes_parameters |= written;
  }
}

void Touches::tell_listeners_of_pieces(const char* operation) const {
  for (const PieceTouch& piece : others_->pieces) {
    if (piece.link->listener == nullptr) continue;
    PieceUse use = piece.use;
    for (const Touches* each = this; each != nullptr && !each->empty(); each = each->next()) {
      use.takes_parameters |= &each->link() == piece.link.get();
    }
    piece.link->listener->pieces_used(use, operation);
  }
}

void Touches::add(const c10::IValue& value, bool written) {
  if (value.isTensor()) {
    add(value.toTensor(), written);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) add(tensor, written);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) add(element.toTensor(), written);
    }
  }
}

namespace {

// Autocast would keep a copy of every parameter that it casts, whole, on every rank, until it ends.
void check_autocast(const UnitStorage& unit, const char* operation) {
  const torch::DeviceType device = unit.device_type();
  if (!at::autocast::is_autocast_enabled(device)) return;
  const torch::ScalarType dtype = at::autocast::get_autocast_dtype(device);
  FSDP_CHECK_UNIT(dtype == unit.dtype(), unit.name(),
                  "{} runs under autocast to {}, but the unit's parameters are {}: autocast would keep full copies of "
                  "them. Leave autocast off and set options.mixed_precision.param_dtype.",
                  operation, toString(dtype), toString(unit.dtype()));
}

}  // namespace

Pins::Pins(const Touches& touches, const char* operation)
    : first_(touches.empty() ? nullptr : &touches), next_(first_) {
  touches.announce_pieces(operation);
  try {
    for (; next_ != nullptr; next_ = next_->next()) {
      Listener* listener = next_->listener();
      FSDP_CHECK_UNIT(listener != nullptr, next_->first().name(),
                      "a parameter was used after its ShardedModel was destroyed. Keep the ShardedModel alive as long "
                      "as the module is called.");
      check_autocast(next_->first(), operation);
      listener->operator_begins(next_->units(), next_->written(), operation);
      next_->link().operation.store(operation, std::memory_order_relaxed);
    }
  } catch (...) {
    end();
    throw;
  }
}

void Pins::tell_of_write(const Touches& touches, const char* operation) {
  if (Listener* listener = touches.listener()) listener->operator_wrote(operation);
}

void Pins::end() noexcept {
  for (const Touches* touches = first_; touches != next_; touches = touches->next()) {
    touches->link().operation.store(nullptr, std::memory_order_relaxed);
    if (Listener* listener = touches->listener()) listener->operator_ends(touches->units());
  }
}

}  // namespace fsdp::interpose
