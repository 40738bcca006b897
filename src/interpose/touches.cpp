#include "interpose/touches.h"

#include "base/error.h"

namespace fsdp::interpose {

void Touches::add_to_next(UnitStorage& storage, bool written) {
  if (!next_) next_ = std::make_unique<Touches>();
  next_->add(storage, written);
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

Pins::Pins(const Touches& touches, const char* operation)
    : first_(touches.empty() ? nullptr : &touches), next_(first_) {
  try {
    for (; next_ != nullptr; next_ = next_->next()) {
      Listener* listener = next_->listener();
      FSDP_CHECK_UNIT(listener != nullptr, next_->name(),
                      "a parameter was used after its ShardedModel was destroyed. Keep the ShardedModel alive as long "
                      "as the module is called.");
      listener->operator_begins(next_->units(), next_->written(), operation);
    }
  } catch (...) {
    end();
    throw;
  }
}

void Pins::end() noexcept {
  for (const Touches* touches = first_; touches != next_; touches = touches->next()) {
    if (Listener* listener = touches->listener()) listener->operator_ends(touches->units());
  }
}

}  // namespace fsdp::interpose
