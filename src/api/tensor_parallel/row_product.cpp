#include "api/tensor_parallel/row_product.h"

#include <vector>

#include "api/tensor_parallel/held_value.h"
#include "api/tensor_parallel/matrices.h"
#include "api/tensor_parallel/part_sum.h"
#include "base/error.h"
#include "interpose/composed_operator.h"

namespace fsdp {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A part's columns of a matrix.
Tensor columns_of(const Tensor& matrix, const RowProductCall& call, int part) {
  const int64_t columns = matrix.size(1) / call.parts.count;
  return matrix.narrow(1, part * columns, columns);
}

struct RowProduct : torch::autograd::Function<RowProduct> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const std::optional<Tensor>& bias, const RowProductCall& call) {
    context->save_for_backward({input, weight});
    context->saved_data["bias"] = bias.has_value();
    HeldValue<RowProductCall>::put(context, call);
    // Below the layer that makes views known to autograd, which forbids to modify a view that comes out of here.
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor rows = input.reshape({-1, input.size(-1)});
    std::vector<int64_t> sizes = input.sizes().vec();
    sizes.back() = weight.size(0);
    std::vector<Tensor> of_parts;
    for (int part = 0; part < call.parts.count; ++part) {
      const Tensor columns = own_matrix(columns_of(weight, call, part));
      of_parts.push_back(own_matrix(columns_of(rows, call, part)).mm(columns.t()).view(sizes));
    }
    Tensor sum = call.sequence_parallel ? slice_of_sum(of_parts, call.axis, 1) : sum_over_parts(of_parts, call.axis);
    return bias ? sum.add_(*bias) : sum;
  }

  // All ranks have the whole gradient, so they all compute the whole gradient of the bias.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    FSDP_CHECK(!torch::GradMode::is_enabled(),
               "RowParallelLinear: found a backward with create_graph, expected one without: it has no second "
               "derivative. Use torch::nn::Linear.");
    const variable_list saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1];
    const RowProductCall call = HeldValue<RowProductCall>::get(context);
    const interpose::ComposedOperator operation("fsdp::row_parallel_linear_backward", {&input, &weight});
    const Tensor gradient = own_rows(call.sequence_parallel ? whole_sequence(gradients[0], call.axis) : gradients[0]);
    Tensor of_input, of_weight, of_bias;
    if (context->needs_input_grad(0)) of_input = input_gradient(gradient, input, weight, call);
    if (context->needs_input_grad(1)) {
      of_weight = place_of_gradient(weight);
      const Tensor rows = input.reshape({-1, input.size(-1)});
      for (int part = 0; part < call.parts.count; ++part)
        write_product(columns_of(of_weight, call, part), gradient.t(), own_matrix(columns_of(rows, call, part)));
    }
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) of_bias = gradient.sum(0);
    return {of_input, of_weight, of_bias, Tensor()};
  }

 private:
  static Tensor input_gradient(const Tensor& gradient, const Tensor& input, const Tensor& weight,
                               const RowProductCall& call) {
    std::vector<Tensor> of_parts;
    for (int part = 0; part < call.parts.count; ++part)
      of_parts.push_back(gradient.mm(own_matrix(columns_of(weight, call, part))));
    return (of_parts.size() == 1 ? of_parts[0] : torch::cat(of_parts, 1)).view(input.sizes());
  }
};

}  // namespace

Tensor row_product(const Tensor& input, const Tensor& weight, const Tensor& bias, const RowProductCall& call) {
  const interpose::ComposedOperator operation("fsdp::row_parallel_linear", {&input, &weight, &bias});
  return RowProduct::apply(input, weight, bias.defined() ? std::optional(bias) : std::nullopt, call);
}

}  // namespace fsdp
