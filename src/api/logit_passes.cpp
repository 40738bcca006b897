#include "api/logit_passes.h"

#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "api/logit_kernels.h"
#include "parallel/for_parts.h"

namespace fsdp {

using torch::Tensor;

torch::ScalarType dtype_of_sums(torch::ScalarType dtype) {
  return dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

namespace {

bool has_kernels(torch::ScalarType dtype, const torch::Device& device) {
  return device.is_cpu() && (dtype == torch::kFloat32 || dtype == torch::kBFloat16);
}

bool has_kernels(const Tensor& tensor) { return has_kernels(tensor.scalar_type(), tensor.device()); }

constexpr int64_t kLogitsPerThread = 1 << 15;  // at least

// Calls `visit` with the number of each row and where it begins.
template <typename Element, typename Visit>
void for_each_row(const Tensor& logits, const Visit& visit) {
  const int64_t columns = logits.size(1);
  auto* begin = static_cast<Element*>(logits.mutable_data_ptr());
  parallel::for_parts(logits.size(0), std::max<int64_t>(kLogitsPerThread / columns, 1), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) visit(row, begin + row * columns);
  });
}

float value_of(float logit) { return logit; }
float value_of(uint16_t logit) { return c10::detail::f32_from_bits(logit); }

template <typename Element>
void add_by_kernel(RowStatistics& rows, const LogitChunk& chunk) {
  const LogitKernels<Element>& kernels = logit_kernels<Element>();
  const int64_t columns = chunk.logits.size(1);
  auto* largest = rows.exponentials.largest.mutable_data_ptr<float>();
  auto* sum = rows.exponentials.sum.mutable_data_ptr<float>();
  auto* of_target = rows.of_target.mutable_data_ptr<float>();
  auto* total = rows.total.defined() ? rows.total.mutable_data_ptr<float>() : nullptr;
  const auto* targets = chunk.target.const_data_ptr<int64_t>();
  for_each_row<Element>(chunk.logits, [&](int64_t row, const Element* logits) {
    LogitRowSums sums{.largest = largest[row], .sum = sum[row]};
    kernels.add(logits, columns, total != nullptr, sums);
    largest[row] = sums.largest;
    sum[row] = sums.sum;
    if (total != nullptr) total[row] += sums.total;
    if (targets[row] >= 0 && targets[row] < columns) of_target[row] = value_of(logits[targets[row]]);
  });
}

template <typename Element>
void make_gradient_by_kernel(const LogitChunk& chunk, const LogitGradient& of) {
  const LogitKernels<Element>& kernels = logit_kernels<Element>();
  const Tensor factors = of.factor.contiguous(), differences = of.at_target.contiguous();
  const Tensor everywhere = of.everywhere.defined() ? of.everywhere.contiguous() : Tensor();
  const auto* largest = of.largest.const_data_ptr<float>();
  const auto* factor = factors.const_data_ptr<float>();
  const auto* at_target = differences.const_data_ptr<float>();
  const auto* added = everywhere.defined() ? everywhere.const_data_ptr<float>() : nullptr;
  const auto* targets = chunk.target.const_data_ptr<int64_t>();
  for_each_row<Element>(chunk.logits, [&](int64_t row, Element* logits) {
    kernels.make_gradient(logits, chunk.logits.size(1),
                          {.largest = largest[row],
                           .factor = factor[row],
                           .everywhere = added == nullptr ? 0 : added[row],
                           .at_target = at_target[row],
                           .target = targets[row]});
  });
}

// Any dtype, on any device.
struct TargetColumns {
  explicit TargetColumns(const LogitChunk& chunk)
      : is_here(chunk.target.ge(0).logical_and_(chunk.target.lt(chunk.logits.size(1)))),
        column(chunk.target.clamp(0, chunk.logits.size(1) - 1).unsqueeze(1)) {}

  Tensor is_here;  // [rows]
  Tensor column;   // [rows, 1]; any where it is not here
};

// An operator that takes 16-bit logits and fp32 numbers computes in fp32: logits need no pass of their own for that.
void add_by_operators(RowStatistics& rows, const LogitChunk& chunk) {
  auto& [largest, sum] = rows.exponentials;
  const torch::ScalarType dtype = sum.scalar_type();
  const TargetColumns targets(chunk);
  const Tensor of_target = chunk.logits.gather(1, targets.column).squeeze(1).to(dtype);
  rows.of_target = torch::where(targets.is_here, of_target, rows.of_target);
  if (rows.total.defined()) rows.total.add_(chunk.logits.sum(1, /*keepdim=*/false, dtype));
  const Tensor before = std::exchange(largest, torch::maximum(largest, chunk.logits.amax(1)));
  sum.mul_((before - largest).exp_()).add_(torch::sub(chunk.logits, largest.unsqueeze(1)).exp_().sum(1));
}

// The target's entry is rounded to the logits' dtype once, as all others are.
void make_gradient_by_operators(const LogitChunk& chunk, const LogitGradient& of) {
  const TargetColumns targets(chunk);
  Tensor values = torch::sub(chunk.logits, of.largest.unsqueeze(1)).exp_();
  const Tensor factor = of.factor.unsqueeze(1);
  Tensor at_target = values.gather(1, targets.column).mul_(factor);
  if (of.everywhere.defined()) at_target.add_(of.everywhere.unsqueeze(1));
  at_target.add_((of.at_target * targets.is_here).unsqueeze(1));
  Tensor logits = chunk.logits;
  if (of.everywhere.defined()) {
    at::add_out(logits, values.mul_(factor), of.everywhere.unsqueeze(1));
  } else {
    at::mul_out(logits, values, factor);
  }
  logits.scatter_(1, targets.column, at_target.to(logits.scalar_type()));
}

}  // namespace

int64_t bytes_beside_logit(torch::ScalarType dtype, const torch::Device& device) {
  return has_kernels(dtype, device) ? 0 : static_cast<int64_t>(c10::elementSize(dtype_of_sums(dtype)));
}

RowStatistics statistics_of_no_logits(const Tensor& hidden, bool with_total) {
  const auto options = hidden.options().dtype(dtype_of_sums(hidden));
  const Tensor zeros = torch::zeros({hidden.size(0)}, options);
  return {.exponentials = {.largest = torch::full_like(zeros, -std::numeric_limits<double>::infinity()), .sum = zeros},
          .of_target = zeros.clone(),
          .total = with_total ? zeros.clone() : Tensor()};
}

void add_to(RowStatistics& rows, const LogitChunk& chunk) {
  if (!has_kernels(chunk.logits)) return add_by_operators(rows, chunk);
  chunk.logits.scalar_type() == torch::kFloat32 ? add_by_kernel<float>(rows, chunk)
                                                : add_by_kernel<uint16_t>(rows, chunk);
}

void make_gradient(const LogitChunk& chunk, const LogitGradient& of_logits) {
  if (!has_kernels(chunk.logits)) return make_gradient_by_operators(chunk, of_logits);
  chunk.logits.scalar_type() == torch::kFloat32 ? make_gradient_by_kernel<float>(chunk, of_logits)
                                                : make_gradient_by_kernel<uint16_t>(chunk, of_logits);
}

}  // namespace fsdp
