#include "interpose/entrance.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

namespace fsdp::interpose {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Entrance : torch::autograd::Function<Entrance> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& leaf) {
    context->set_materialize_grads(false);
    // Below the layer that makes views known to autograd, which forbids to modify a view that comes out of here.
    const at::AutoDispatchBelowADInplaceOrView below;
    return at::alias(leaf);
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) { return {gradients[0]}; }
};

}  // namespace

torch::Tensor enter(const torch::Tensor& leaf) {
  torch::Tensor entered = Entrance::apply(leaf);
  torch::autograd::impl::set_version_counter(entered, torch::autograd::impl::version_counter(leaf));
  return entered;
}

}  // namespace fsdp::interpose
