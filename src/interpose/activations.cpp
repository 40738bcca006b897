#include "interpose/activations.h"

#include <initializer_list>
#include <span>
#include <string_view>
#include <unordered_set>

#include "base/error.h"

namespace fsdp::interpose {

namespace {

using Names = std::unordered_set<std::string_view>;

// Operators that need arguments of equal dtypes.
constexpr std::string_view kProducts[] = {
    "addbmm",       "addmm",  "addmv",  "baddbmm", "bilinear",         "bmm",
    "chain_matmul", "dot",    "einsum", "inner",   "linalg_multi_dot", "linalg_vecdot",
    "linear",       "matmul", "mm",     "mv",      "tensordot",        "vdot"};
constexpr std::string_view kConvolutions[] = {"_convolution",     "conv1d",           "conv2d",
                                              "conv3d",           "conv_tbc",         "conv_transpose1d",
                                              "conv_transpose2d", "conv_transpose3d", "convolution"};
constexpr std::string_view kNorms[] = {"batch_norm",        "group_norm",        "instance_norm", "layer_norm",
                                       "native_group_norm", "native_layer_norm", "rms_norm"};
constexpr std::string_view kRecurrent[] = {"gru",      "gru_cell",      "lstm",     "lstm_cell",
                                           "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell"};
constexpr std::string_view kAttention[] = {"_native_multi_head_attention", "_transformer_encoder_layer_fwd",
                                           "scaled_dot_product_attention"};
constexpr std::string_view kWrites[] = {"index_add", "index_copy", "index_put",   "index_reduce",  "masked_scatter",
                                        "put",       "scatter",    "scatter_add", "scatter_reduce"};
constexpr std::string_view kOthers[] = {"_embedding_bag",  "binary_cross_entropy",
                                        "cross",           "embedding_bag",
                                        "grid_sampler",    "grid_sampler_2d",
                                        "grid_sampler_3d", "heaviside",
                                        "isclose",         "lerp",
                                        "linalg_cross",    "prelu"};

Names united(std::initializer_list<std::span<const std::string_view>> groups) {
  Names all;
  for (const auto& group : groups) all.insert(group.begin(), group.end());
  return all;
}

bool needs_equal_dtypes(std::string_view operation) {
  static const Names names = united({kProducts, kConvolutions, kNorms, kRecurrent, kAttention, kWrites, kOthers});
  return names.contains(operation);
}

bool lacks_sixteen_bits(std::string_view operation) {
  static const Names names{"cdist",
                           "complex",
                           "linalg_lstsq",
                           "linalg_solve",
                           "linalg_solve_ex",
                           "linalg_solve_triangular",
                           "multi_margin_loss",
                           "polar"};
  return names.contains(operation);
}

// Without the namespace, and without the sign of an operator in place.
std::string_view plain_name(std::string_view operation) {
  if (operation.starts_with("aten::")) operation.remove_prefix(6);
  if (operation.ends_with('_')) operation.remove_suffix(1);
  return operation;
}

}  // namespace

ArgumentDtypes argument_dtypes(const std::string& operation) {
  const std::string_view name = plain_name(operation);
  if (needs_equal_dtypes(name)) return ArgumentDtypes::OfParameter;
  return lacks_sixteen_bits(name) ? ArgumentDtypes::Float32 : ArgumentDtypes::AsTheyAre;
}

ArgumentTraits argument_traits(const c10::Argument& argument) {
  const std::string& name = argument.name();
  return {.written = argument.alias_info() != nullptr && argument.alias_info()->isWrite(),
          .statistics = name == "running_mean" || name == "running_var",
          .any_dtype = name == "attn_mask"};
}

at::Tensor cast_argument(const at::Tensor& tensor, torch::ScalarType dtype) {
  const bool differs = tensor.defined() && tensor.is_floating_point() && tensor.scalar_type() != dtype;
  return differs ? tensor.to(dtype) : tensor;
}

namespace {

void check_statistics(const c10::IValue& value, const UnitStorage& unit) {
  if (!value.isTensor() || !value.toTensor().defined()) return;
  const torch::ScalarType found = value.toTensor().scalar_type();
  FSDP_CHECK_UNIT(found == unit.dtype(), unit.name(),
                  "found running statistics in {} and parameters in {}, expected one dtype. Keep the module with "
                  "options.mixed_precision.keep, or convert its buffers too, with buffer_dtype.",
                  toString(found), toString(unit.dtype()));
}

torch::ScalarType common_dtype(torch::jit::Stack& stack, const std::vector<ArgumentTraits>& arguments,
                               ArgumentDtypes rule, const UnitStorage& unit) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = torch::jit::peek(stack, i, arguments.size());
    if (arguments[i].written && value.isTensor() && value.toTensor().is_floating_point()) {
      return value.toTensor().scalar_type();
    }
  }
  return rule == ArgumentDtypes::Float32 ? torch::kFloat32 : unit.dtype();
}

}  // namespace

void cast_arguments(torch::jit::Stack& stack, const std::vector<ArgumentTraits>& arguments, ArgumentDtypes rule,
                    const UnitStorage& unit) {
  const torch::ScalarType dtype = common_dtype(stack, arguments, rule, unit);
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = torch::jit::peek(stack, i, arguments.size());
    if (arguments[i].statistics) {
      check_statistics(value, unit);
    } else if (arguments[i].written || arguments[i].any_dtype) {
      continue;
    } else if (value.isTensor()) {
      value = cast_argument(value.toTensor(), dtype);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> cast;
      for (const at::Tensor& tensor : value.toTensorList()) cast.push_back(cast_argument(tensor, dtype));
      value = std::move(cast);
    }
  }
}

}  // namespace fsdp::interpose
