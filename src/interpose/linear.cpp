#include "interpose/linear.h"

#include <ATen/ExpandUtils.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "interpose/accumulator.h"
#include "interpose/recomputation.h"

namespace fsdp::interpose {

namespace {

using torch::Scalar;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// How a layer's weight [rows, columns] is given.
enum class Given { Itself, Transposed };

// Who gets the product of a backward that leaves it.
struct ProductsTaker : torch::CustomClassHolder {
  explicit ProductsTaker(LeaveProduct leave) : leave(std::move(leave)) {}
  LeaveProduct leave;
};
constexpr const char* kTaker = "products' taker";

// The matrix of all rows of the leading dimensions.
Tensor as_matrix(const Tensor& tensor) { return tensor.dim() == 2 ? tensor : tensor.reshape({-1, tensor.size(-1)}); }

// The products are those of autograd's own addmm and mm.
template <Given given>
struct LinearInPlace : torch::autograd::Function<LinearInPlace<given>> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const std::optional<Tensor>& bias) {
    context->save_for_backward({input, weight});
    context->saved_data["bias"] = bias && bias->defined();
    context->set_materialize_grads(false);
    // Below the layer that makes views known to autograd, which forbids to modify a view that comes out of here. This
    // one is of memory without other holders.
    at::AutoDispatchBelowADInplaceOrView below;
    if constexpr (given == Given::Itself) return at::linear(input, weight, bias);
    return bias ? at::addmm(*bias, input, weight) : at::matmul(input, weight);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (!gradients[0].defined()) return {Tensor(), Tensor(), Tensor()};
    const variable_list saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1];
    const Tensor gradient = as_matrix(gradients[0]);
    Tensor of_input, of_weight, of_bias;
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2))
      of_bias = at::sum_to(gradient, at::IntArrayRef{gradient.size(1)});
    if (context->needs_input_grad(0))
      of_input = gradient.mm(given == Given::Itself ? weight : weight.t()).view_as(input);
    const auto form = given == Given::Itself ? ProductForm::Weight : ProductForm::Transposed;
    if (context->needs_input_grad(1)) {
      of_weight = weight_gradient(weight, as_matrix(input), gradient, form);
    } else if (const auto taker = context->saved_data.find(kTaker); taker != context->saved_data.end()) {
      c10::static_intrusive_pointer_cast<ProductsTaker>(taker->second.toCapsule())
          ->leave({weight, KeptTensor(as_matrix(input)), KeptTensor(gradient), form});
    }
    return {of_input, of_weight, of_bias};
  }
};

// Null for a node of another kind.
AutogradContext* context_of(torch::autograd::Node& node) {
  using torch::autograd::CppNode;
  if (auto* itself = dynamic_cast<CppNode<LinearInPlace<Given::Itself>>*>(&node)) return &itself->ctx_;
  auto* transposed = dynamic_cast<CppNode<LinearInPlace<Given::Transposed>>*>(&node);
  return transposed != nullptr ? &transposed->ctx_ : nullptr;
}

bool has_tangent(const Tensor& tensor) { return tensor._fw_grad(/*level=*/0).defined(); }

bool input_goes_in_place(const Tensor& input, const Tensor& weight) {
  return input.scalar_type() == weight.scalar_type() && input.layout() == torch::kStrided && !input.is_nested() &&
         input.dim() >= 2 && input.is_contiguous() && !has_tangent(input);
}

// One that every row is given a number of its own by; others repeat, and their gradients are summed up differently.
bool bias_goes_in_place(const Tensor& bias, int64_t rows) {
  return !bias.defined() || (bias.dim() == 1 && bias.size(0) == rows && !has_tangent(bias));
}

// The cheapest questions come first: other products with parameters ask them as well.
bool transposed_goes_in_place(const Tensor& transposed) {
  return transposed.dim() == 2 && transposed.stride(0) == 1 && transposed.stride(1) == transposed.size(0) &&
         torch::GradMode::is_enabled() && transposed.requires_grad() &&
         gradient_of_transposed_goes_in_place(transposed);
}

}  // namespace

bool linear_goes_in_place(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias) {
  return torch::GradMode::is_enabled() && weight.requires_grad() && weight.dim() == 2 && weight.is_contiguous() &&
         gradient_goes_in_place(weight) && input_goes_in_place(input, weight) &&
         (!bias || bias_goes_in_place(*bias, weight.size(0)));
}

Tensor linear_in_place(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias) {
  return LinearInPlace<Given::Itself>::apply(input, weight, bias);
}

bool product_goes_in_place(const Tensor& input, const Tensor& transposed) {
  return transposed_goes_in_place(transposed) && input_goes_in_place(input, transposed);
}

Tensor product_in_place(const Tensor& input, const Tensor& transposed) {
  about_to_save({&input, &transposed});
  return LinearInPlace<Given::Transposed>::apply(input, transposed, std::optional<Tensor>());
}

bool product_goes_in_place(const Tensor& bias, const Tensor& input, const Tensor& transposed, const Scalar& beta,
                           const Scalar& alpha) {
  return product_goes_in_place(input, transposed) && bias_goes_in_place(bias, transposed.size(1)) && beta.equal(1) &&
         alpha.equal(1);
}

Tensor product_in_place(const Tensor& bias, const Tensor& input, const Tensor& transposed, const Scalar&,
                        const Scalar&) {
  about_to_save({&input, &transposed});
  return LinearInPlace<Given::Transposed>::apply(input, transposed, std::optional<Tensor>(bias));
}

bool is_linear_in_place(const torch::autograd::Node& node) {
  return context_of(const_cast<torch::autograd::Node&>(node)) != nullptr;
}

void leave_product(torch::autograd::Node& layer, LeaveProduct leave) {
  AutogradContext& context = *context_of(layer);
  context.saved_data.erase(kTaker);
  if (leave) {
    context.saved_data[kTaker] = torch::IValue::make_capsule(c10::make_intrusive<ProductsTaker>(std::move(leave)));
  }
}

}  // namespace fsdp::interpose
