#include "interpose/touches.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::interpose {

namespace {

template <typename Units>
void add_once(Units& units, int unit) {
  if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
}

}  // namespace

void Touches::add(UnitStorage& storage, bool written) {
  FSDP_CHECK_UNIT(storage.link()->listener != nullptr, storage.name(),
                  "a parameter was used after its ShardedModel was destroyed. Keep the ShardedModel alive as long as "
                  "the module is called.");
  auto touch = std::find_if(of_models_.begin(), of_models_.end(),
                            [&](const Touch& other) { return other.link == storage.link().get(); });
  if (touch == of_models_.end()) {
    of_models_.emplace_back().link = storage.link().get();
    touch = of_models_.end() - 1;
  }
  add_once(touch->units, storage.unit());
  if (written) add_once(touch->written, storage.unit());
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

Pins::Pins(Touches& touches, const char* operation) : touches_(touches) {
  for (Touches::Touch& touch : touches.of_models()) {
    try {
      touch.link->listener->operator_begins(touch.units, touch.written, operation);
    } catch (...) {
      end();
      throw;
    }
    ++begun_;
  }
}

void Pins::end() noexcept {
  for (size_t i = 0; i < begun_; ++i) {
    Touches::Touch& touch = touches_.of_models()[i];
    if (Listener* listener = touch.link->listener) listener->operator_ends(touch.units);
  }
}

}  // namespace fsdp::interpose
