// A value of ours in the context of a torch::autograd::Function, from its forward to its backward.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace fsdp {

template <typename Value>
class HeldValue : public torch::CustomClassHolder {
 public:
  static void put(torch::autograd::AutogradContext* context, Value value) {
    context->saved_data["value"] = torch::IValue::make_capsule(c10::make_intrusive<HeldValue>(std::move(value)));
  }
  static Value get(torch::autograd::AutogradContext* context) {
    return c10::static_intrusive_pointer_cast<HeldValue>(context->saved_data["value"].toCapsule())->value_;
  }
  explicit HeldValue(Value value) : value_(std::move(value)) {}

 private:
  Value value_;
};

}  // namespace fsdp
