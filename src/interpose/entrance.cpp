#include "interpose/entrance.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace fsdp::interpose {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Slot : torch::CustomClassHolder {
  explicit Slot(std::shared_ptr<torch::Tensor> gradient_) : gradient(std::move(gradient_)) {}
  std::shared_ptr<torch::Tensor> gradient;
};

struct Entrance : torch::autograd::Function<Entrance> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& leaf,
                               std::shared_ptr<torch::Tensor> gradient) {
    context->set_materialize_grads(false);
    context->saved_data["slot"] = torch::IValue::make_capsule(c10::make_intrusive<Slot>(std::move(gradient)));
    // Below the layer that makes views known to autograd, which forbids to modify a view that comes out of here.
    const at::AutoDispatchBelowADInplaceOrView below;
    return at::alias(leaf);
  }
  // A leaf's grad would have the leaf's strides.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    *c10::static_intrusive_pointer_cast<Slot>(context->saved_data["slot"].toCapsule())->gradient = gradients[0];
    return {torch::Tensor(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor enter(const torch::Tensor& leaf, std::shared_ptr<torch::Tensor> gradient) {
  torch::Tensor entered = Entrance::apply(leaf, std::move(gradient));
  torch::autograd::impl::set_version_counter(entered, torch::autograd::impl::version_counter(leaf));
  return entered;
}

}  // namespace fsdp::interpose
