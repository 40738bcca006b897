// Operators that have another kernel on a GPU than on the CPU: dropout, softmax into fp32. Attention is in
// attention.cpp.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "device/generator.h"
#include "device/host_tensor.h"
#include "device/streams.h"

namespace fsdp::testing::device {

namespace {

using at::Tensor;

std::tuple<Tensor, Tensor> dropout(const Tensor& input, double p, std::optional<bool> training) {
  if (p == 0 || !training.value_or(true))
    return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  const Tensor kept = at::empty_like(input).bernoulli_(1 - p);
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  return {input * kept * scale, kept.to(at::kBool)};
}

Tensor softmax(const Tensor& input, int64_t dim, bool to_float) {
  const at::AutoDispatchBelowADInplaceOrView below;
  Tensor result = at::empty({0}, input.options().dtype(to_float ? at::kFloat : input.scalar_type()));
  return at::_softmax_out(result, to_float ? input.to(at::kFloat) : input, dim, false);
}

Tensor log_softmax(const Tensor& input, int64_t dim, bool to_float) {
  const at::AutoDispatchBelowADInplaceOrView below;
  Tensor result = at::empty({0}, input.options().dtype(to_float ? at::kFloat : input.scalar_type()));
  return at::_log_softmax_out(result, to_float ? input.to(at::kFloat) : input, dim, false);
}

Tensor softmax_backward(const Tensor& gradient, const Tensor& output, int64_t dim, at::ScalarType input) {
  const at::AutoDispatchBelowADInplaceOrView below;
  Tensor result = at::empty({0}, output.options());
  return at::_softmax_backward_data_out(result, gradient, output, dim, output.scalar_type()).to(input);
}

Tensor log_softmax_backward(const Tensor& gradient, const Tensor& output, int64_t dim, at::ScalarType input) {
  const at::AutoDispatchBelowADInplaceOrView below;
  Tensor result = at::empty({0}, output.options());
  return at::_log_softmax_backward_data_out(result, gradient, output, dim, output.scalar_type()).to(input);
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("native_dropout", dropout);
  library.impl("_softmax", softmax);
  library.impl("_log_softmax", log_softmax);
  library.impl("_softmax_backward_data", softmax_backward);
  library.impl("_log_softmax_backward_data", log_softmax_backward);
}

}  // namespace

}  // namespace fsdp::testing::device
