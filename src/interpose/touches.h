// The units that one operator takes, and its hold on them while it runs. Objects of these classes live on the stack of
// a kernel on our key, for one operator and thread.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "interpose/deferred_tensor.h"
#include "interpose/key.h"
#include "interpose/unit_storage.h"

namespace fsdp::interpose {

// How an operator uses one model's pieces.
struct PieceTouch {
  std::shared_ptr<Link> link;
  PieceUse use;
};

// One model's units among an operator's arguments, each there once, and behind them the next model's: a list, as nearly
// every operator meets one model.
class Touches {
 public:
  void add(const at::Tensor& tensor, bool written) {
    if (!tensor.key_set().has(kKey)) return;
    if (UnitStorage* storage = UnitStorage::of(tensor)) return add(*storage, written);
    add_other(tensor, written);
  }
  // A value of the boxed stack: a tensor, a list with tensors, or anything else, which is passed over.
  void add(const c10::IValue& value, bool written);

  bool empty() const { return first_ == nullptr; }
  Link& link() const { return *first_->link(); }
  // Null once the model has gone.
  Listener* listener() const { return link().listener; }
  const UnitStorage& first() const { return *first_; }
  std::span<const int> units() const { return {units_.data(), units_.size()}; }
  std::optional<int> written() const { return written_; }  // the first unit that the operator writes
  const Touches* next() const { return others_ ? others_->next.get() : nullptr; }
  // The storage of a deferred argument; null if there is none.
  DeferredStorage* deferred() const { return others_ ? others_->deferred : nullptr; }
  // Tells the listeners of the pieces among the arguments.
  void announce_pieces(const char* operation) const {
    if (others_) tell_listeners_of_pieces(operation);
  }

 private:
  // Most operators have none of these.
  struct Others {
    std::unique_ptr<Touches> next;
    std::vector<PieceTouch> pieces;
    DeferredStorage* deferred = nullptr;
  };

  void add(UnitStorage& storage, bool written) {
    if (first_ == nullptr) first_ = &storage;
    if (first_->link() != storage.link()) return add_to_next(storage, written);
    if (std::find(units_.begin(), units_.end(), storage.unit()) == units_.end()) units_.push_back(storage.unit());
    if (written && !written_) written_ = storage.unit();
  }
  Others& others();
  void add_to_next(UnitStorage& storage, bool written);
  void add_other(const at::Tensor& tensor, bool written);
  void tell_listeners_of_pieces(const char* operation) const;

  const UnitStorage* first_ = nullptr;  // held by the arguments
  c10::SmallVector<int, 4> units_;
  std::optional<int> written_;
  std::unique_ptr<Others> others_;
};

// Tells the listeners that an operator begins, and that it ends. In between the key is unseen: what the operator calls
// inside works on units that are pinned already, so an outer operator is one touch.
//
// Throws Error where a model has gone or its listener refuses; the models that had begun are told of the end.
class Pins {
 public:
  Pins(const Touches& touches, const char* operation);
  ~Pins() { end(); }
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;

  // The operator has returned: listeners whose units it writes are told. Throws Error.
  void operator_returned(const char* operation) const {
    for (const Touches* touches = first_; touches != nullptr; touches = touches->next()) {
      if (touches->written()) [[unlikely]]
        tell_of_write(*touches, operation);
    }
  }

 private:
  static void tell_of_write(const Touches& touches, const char* operation);
  void end() noexcept;

  const Touches* first_;
  const Touches* next_;  // not begun yet
  c10::impl::ExcludeDispatchKeyGuard inside_{kKey};
};

// Who performs the operator in our place; null where nothing of it is deferred.
inline OperatorRecorder* recorder_of(const Touches& touches) {
  if (const DeferredStorage* deferred = touches.deferred()) [[unlikely]]
    return deferred->recorder().get();
  return RecordedScope::current();
}

// Before an operator that reads no bytes makes a view of the tensor.
inline void announce_view(const at::Tensor& tensor) {
  const UnitStorage* storage = UnitStorage::of(tensor);
  if (storage == nullptr || !storage->link()->changed.load(std::memory_order_relaxed)) return;
  if (Listener* listener = storage->link()->listener) listener->parameter_viewed(storage->unit());
}

// An operator's keys below ours.
inline c10::DispatchKeySet keys_below(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
}

}  // namespace fsdp::interpose
