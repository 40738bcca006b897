// The units that one operator takes, and their hold on them while it runs.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>
#include <torch/types.h>

#include <memory>

#include "interpose/key.h"
#include "interpose/unit_storage.h"

namespace fsdp::interpose {

// Collected from the operator's arguments; each model and each unit is there once.
class Touches {
 public:
  void add(const at::Tensor& tensor, bool written) {
    if (UnitStorage* storage = UnitStorage::of(tensor)) add(*storage, written);
  }
  // A value of the boxed stack: a tensor, a list with tensors, or anything else, which is passed over.
  void add(const c10::IValue& value, bool written);

  struct Touch {
    Link* link = nullptr;  // held by the storages of the arguments
    c10::SmallVector<int, 4> units;
    c10::SmallVector<int, 2> written;
  };
  c10::SmallVector<Touch, 1>& of_models() { return of_models_; }

 private:
  void add(UnitStorage& storage, bool written);

  c10::SmallVector<Touch, 1> of_models_;
};

// Tells the listeners that an operator begins, and that it ends. In between the key is unseen: what the operator calls
// inside works on units that are pinned already, so an outer operator is one touch.
class Pins {
 public:
  Pins(Touches& touches, const char* operation);
  ~Pins() { end(); }
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;

 private:
  void end() noexcept;

  Touches& touches_;
  size_t begun_ = 0;
  c10::impl::ExcludeDispatchKeyGuard inside_{kKey};
};

// What is left of an operator's keys below ours.
inline c10::DispatchKeySet keys_below(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
}

}  // namespace fsdp::interpose
