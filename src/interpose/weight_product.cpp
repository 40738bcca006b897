#include "interpose/weight_product.h"

#include <torch/csrc/autograd/generated/Functions.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "interpose/accumulator.h"
#include "interpose/linear.h"

namespace fsdp::interpose {

namespace {

using torch::Tensor;
using torch::autograd::Node;
using torch::autograd::variable_list;
using torch::autograd::generated::AddmmBackward0;
using torch::autograd::generated::MmBackward0;

// The common part of autograd's two kinds of nodes.
struct MatrixProduct {
  const torch::autograd::SavedVariable* input;
  const std::vector<c10::SymInt>* sizes;  // of the weight
  const std::vector<c10::SymInt>* strides;
  bool dense;
  size_t weight_edge;

  static std::optional<MatrixProduct> of(const Node& node) {
    if (const auto* mm = dynamic_cast<const MmBackward0*>(&node)) {
      const bool dense = mm->self_layout == at::kStrided && mm->mat2_layout == at::kStrided;
      return MatrixProduct{&mm->self_, &mm->mat2_sym_sizes, &mm->mat2_sym_strides, dense, 1};
    }
    if (const auto* addmm = dynamic_cast<const AddmmBackward0*>(&node)) {
      const bool dense = addmm->mat1_layout == at::kStrided && addmm->mat2_layout == at::kStrided;
      if (addmm->alpha.equal(1))
        return MatrixProduct{&addmm->mat1_, &addmm->mat2_sym_sizes, &addmm->mat2_sym_strides, dense, 2};
    }
    return {};
  }
  // As autograd chooses between its two ways.
  bool by_columns() const { return (*strides)[0] != 1 || (*strides)[1] != (*sizes)[0]; }
};

// In front of a node of autograd's own. The input is unpacked once: the node itself does not need it.
class LeaveInput final : public torch::autograd::FunctionPreHook {
 public:
  LeaveInput(const MatrixProduct& product, LeaveProduct leave) : product_(product), leave_(std::move(leave)) {}

  variable_list operator()(const variable_list& gradients) override {
    if (gradients[0].defined()) {
      const auto form = product_.by_columns() ? ProductForm::Columns : ProductForm::Transposed;
      leave_({.weight = {},
              .input = KeptTensor(product_.input->unpack()),
              .gradient = KeptTensor(gradients[0]),
              .form = form});
    }
    return gradients;
  }

 private:
  MatrixProduct product_;
  LeaveProduct leave_;
};

bool is_real(const Node& node) {
  return node.num_inputs() == 1 && !c10::isComplexType(node.input_metadata(0).dtype().toScalarType());
}

}  // namespace

Tensor weight_gradient(const Tensor& weight, const Tensor& input, const Tensor& gradient, ProductForm form) {
  if (form == ProductForm::Columns) return input.t().mm(gradient);
  Tensor place = weight.defined() ? gradient_destination(weight) : Tensor();
  const Tensor product = place.defined() ? at::mm_out(place, gradient.t(), input) : gradient.t().mm(input);
  return form == ProductForm::Transposed ? product.t() : product;
}

std::optional<size_t> weight_edge(Node& node) {
  if (is_linear_in_place(node)) return has_hooks(node) ? std::nullopt : std::optional<size_t>(1);
  const std::optional<MatrixProduct> product = MatrixProduct::of(node);
  if (!product || !product->dense || !is_real(node) || has_hooks(node)) return {};
  return product->weight_edge;
}

LeavingProduct::LeavingProduct(Node& node, LeaveProduct leave) : node_(node) {
  if (is_linear_in_place(node)) {
    leave_product(node, std::move(leave));
  } else {
    node.add_pre_hook(std::make_unique<LeaveInput>(*MatrixProduct::of(node), std::move(leave)));
  }
}

LeavingProduct::~LeavingProduct() {
  if (is_linear_in_place(node_)) leave_product(node_, {});
  std::erase_if(node_.pre_hooks(), [](const auto& hook) { return dynamic_cast<LeaveInput*>(hook.get()) != nullptr; });
}

}  // namespace fsdp::interpose
