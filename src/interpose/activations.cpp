#include "interpose/activations.h"

#include <unordered_set>

#include "base/error.h"

namespace fsdp::interpose {

bool needs_equal_dtypes(const std::string& operation) {
  static const std::unordered_set<std::string> operations{"aten::linear",
                                                          "aten::addmm",
                                                          "aten::mm",
                                                          "aten::bmm",
                                                          "aten::baddbmm",
                                                          "aten::addbmm",
                                                          "aten::matmul",
                                                          "aten::mv",
                                                          "aten::addmv",
                                                          "aten::dot",
                                                          "aten::bilinear",
                                                          "aten::einsum",
                                                          "aten::conv1d",
                                                          "aten::conv2d",
                                                          "aten::conv3d",
                                                          "aten::convolution",
                                                          "aten::_convolution",
                                                          "aten::conv_transpose1d",
                                                          "aten::conv_transpose2d",
                                                          "aten::conv_transpose3d",
                                                          "aten::lstm",
                                                          "aten::gru",
                                                          "aten::rnn_tanh",
                                                          "aten::rnn_relu",
                                                          "aten::lstm_cell",
                                                          "aten::gru_cell",
                                                          "aten::rnn_tanh_cell",
                                                          "aten::rnn_relu_cell",
                                                          "aten::layer_norm",
                                                          "aten::native_layer_norm",
                                                          "aten::group_norm",
                                                          "aten::native_group_norm",
                                                          "aten::batch_norm",
                                                          "aten::instance_norm",
                                                          "aten::rms_norm",
                                                          "aten::prelu",
                                                          "aten::_native_multi_head_attention",
                                                          "aten::_transformer_encoder_layer_fwd"};
  return operations.contains(operation);
}

bool holds_statistics(const std::string& argument) { return argument == "running_mean" || argument == "running_var"; }

at::Tensor cast_activation(const at::Tensor& activation, const UnitStorage& unit) {
  const bool differs = activation.defined() && activation.is_floating_point() &&
                       activation.scalar_type() != unit.dtype() && UnitStorage::of(activation) == nullptr;
  return differs ? activation.to(unit.dtype()) : activation;
}

namespace {

void check_statistics(const c10::IValue& value, const UnitStorage& unit) {
  if (!value.isTensor() || !value.toTensor().defined()) return;
  const torch::ScalarType found = value.toTensor().scalar_type();
  FSDP_CHECK_UNIT(found == unit.dtype(), unit.name(),
                  "running statistics are {} beside parameters in {}, expected the same. Keep the module with "
                  "options.mixed_precision.keep, or convert its buffers too, with buffer_dtype.",
                  toString(found), toString(unit.dtype()));
}

}  // namespace

void cast_activations(torch::jit::Stack& stack, const std::vector<bool>& statistics, const UnitStorage& unit) {
  for (size_t i = 0; i < statistics.size(); ++i) {
    c10::IValue& value = torch::jit::peek(stack, i, statistics.size());
    if (statistics[i]) {
      check_statistics(value, unit);
      continue;
    }
    if (value.isTensor()) {
      value = cast_activation(value.toTensor(), unit);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> cast;
      for (const at::Tensor& tensor : value.toTensorList()) cast.push_back(cast_activation(tensor, unit));
      value = std::move(cast);
    }
  }
}

}  // namespace fsdp::interpose
