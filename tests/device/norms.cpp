// Norms as GPUs compute them: the numbers that they keep of each row are in fp32, and RMS norms keep no scaled values.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <array>
#include <limits>
#include <numeric>

#include "device/fallback.h"

namespace fsdp::testing::device {

namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using Sizes = c10::SymIntArrayRef;
using Three = std::tuple<Tensor, Tensor, Tensor>;

// The kernel for CPUs, for its bits.
template <typename... Arguments>
Three on_cpu(const char* name, const Arguments&... arguments) {
  const c10::OperatorHandle operation = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  torch::jit::Stack stack;
  torch::jit::push(stack, arguments...);
  run_on_device(operation, &stack);
  return {stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor()};
}

std::vector<int64_t> numbers(Sizes shape) { return C10_AS_INTARRAYREF_SLOW(shape).vec(); }

Three layer_norm(const Tensor& input, Sizes shape, const MaybeTensor& weight, const MaybeTensor& bias, double epsilon) {
  auto [result, mean, rstd] = on_cpu("aten::native_layer_norm", input, numbers(shape), weight, bias, epsilon);
  const auto wide = at::promote_types(mean.scalar_type(), at::kFloat);
  return {result, mean.to(wide), rstd.to(wide)};
}

Three layer_norm_backward(const Tensor& gradient, const Tensor& input, Sizes shape, const Tensor& mean,
                          const Tensor& rstd, const MaybeTensor& weight, const MaybeTensor& bias,
                          std::array<bool, 3> wanted) {
  const at::ScalarType dtype = (weight && weight->defined() ? *weight : input).scalar_type();
  return on_cpu("aten::native_layer_norm_backward", gradient, input, numbers(shape), mean.to(dtype), rstd.to(dtype),
                weight, bias, c10::List<bool>({wanted[0], wanted[1], wanted[2]}));
}

std::vector<int64_t> last_dimensions(int64_t count) {
  std::vector<int64_t> dimensions(static_cast<size_t>(count));
  std::iota(dimensions.begin(), dimensions.end(), -count);
  return dimensions;
}

Tensor in_float(const Tensor& x) { return x.to(at::promote_types(x.scalar_type(), at::kFloat)); }

// (Zhang, Sennrich 2019)
std::tuple<Tensor, Tensor> rms_norm(const Tensor& input, at::IntArrayRef shape, const MaybeTensor& weight,
                                    std::optional<double> epsilon) {
  const Tensor x = in_float(input);
  const double least =
      x.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const auto row = last_dimensions(static_cast<int64_t>(shape.size()));
  const Tensor rstd = x.pow(2).mean(row, /*keepdim=*/true).add_(epsilon.value_or(least)).rsqrt();
  const Tensor scaled = x * rstd;
  return {(weight && weight->defined() ? scaled * *weight : scaled).to(input.scalar_type()), rstd};
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& gradient, const Tensor& input, at::IntArrayRef shape,
                                             const Tensor& rstd, const MaybeTensor& weight,
                                             std::array<bool, 2> wanted) {
  const bool has_weight = weight && weight->defined();
  const auto row = last_dimensions(static_cast<int64_t>(shape.size()));
  const Tensor x = in_float(input), of_result = in_float(gradient);
  Tensor to_input, to_weight;
  if (wanted[0]) {
    const Tensor of_scaled = has_weight ? of_result * *weight : of_result;
    const Tensor scaled = x * rstd;
    to_input = ((of_scaled - scaled * (of_scaled * scaled).mean(row, true)) * rstd).to(input.scalar_type());
  }
  if (wanted[1] && has_weight)
    to_weight = (of_result * x * rstd).sum_to_size(weight->sizes()).to(weight->scalar_type());
  return {to_input, to_weight};
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("native_layer_norm", layer_norm);
  library.impl("native_layer_norm_backward", layer_norm_backward);
  library.impl("_fused_rms_norm", rms_norm);
  library.impl("_fused_rms_norm_backward", rms_norm_backward);
}

}  // namespace

}  // namespace fsdp::testing::device
