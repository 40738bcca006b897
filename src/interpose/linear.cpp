#include "interpose/linear.h"

#include <ATen/ExpandUtils.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include "interpose/accumulator.h"

namespace fsdp::interpose {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The matrix of all rows of the leading dimensions.
Tensor as_matrix(const Tensor& tensor) { return tensor.dim() == 2 ? tensor : tensor.reshape({-1, tensor.size(-1)}); }

// Undefined where the gradient goes to the user as well, or has a graph of its own.
Tensor place_of(const Tensor& weight) {
  const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
  if (torch::GradMode::is_enabled() || (wanted != nullptr && !wanted->empty())) return {};
  return place_of_gradient(weight);
}

// The products are those of autograd's own addmm and mm.
struct LinearInPlace : torch::autograd::Function<LinearInPlace> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const std::optional<Tensor>& bias) {
    context->save_for_backward({input, weight});
    context->saved_data["bias"] = bias && bias->defined();
    context->set_materialize_grads(false);
    // Below the layer that makes views known to autograd, which forbids to modify a view that comes out of here. This
    // one is of memory that nobody else holds.
    at::AutoDispatchBelowADInplaceOrView below;
    return at::linear(input, weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (!gradients[0].defined()) return {Tensor(), Tensor(), Tensor()};
    const variable_list saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1];
    const Tensor gradient = as_matrix(gradients[0]);
    Tensor of_input, of_weight, of_bias;
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2))
      of_bias = at::sum_to(gradient, at::IntArrayRef{weight.size(0)});
    if (context->needs_input_grad(0)) of_input = gradient.mm(weight).view_as(input);
    if (context->needs_input_grad(1)) {
      Tensor place = place_of(weight);
      const Tensor rows = as_matrix(input);
      of_weight = place.defined() ? at::mm_out(place, gradient.t(), rows) : gradient.t().mm(rows);
    }
    return {of_input, of_weight, of_bias};
  }
};

}  // namespace

bool linear_goes_in_place(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias) {
  return torch::GradMode::is_enabled() && weight.requires_grad() && weight.dim() == 2 && weight.is_contiguous() &&
         gradient_goes_in_place(weight) && input.scalar_type() == weight.scalar_type() &&
         input.layout() == torch::kStrided && !input.is_nested() && input.dim() >= 2 && input.is_contiguous() &&
         !input._fw_grad(/*level=*/0).defined() && (!bias || bias->dim() == 1);
}

Tensor linear_in_place(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias) {
  return LinearInPlace::apply(input, weight, bias);
}

}  // namespace fsdp::interpose
