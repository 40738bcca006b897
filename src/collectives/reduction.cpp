#include "collectives/reduction.h"

#include "base/error.h"

namespace fsdp::collectives {

namespace {

bool adds(ReduceOp op) { return op == ReduceOp::Sum || op == ReduceOp::Mean; }

bool is_widened(torch::ScalarType dtype, ReduceOp op) { return adds(op) && at::isReducedFloatingType(dtype); }

void combine(torch::Tensor& result, const torch::Tensor& part, ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Mean:
      result.add_(part.to(result.scalar_type()));
      return;
    case ReduceOp::Max:
      at::maximum_out(result, result, part);
      return;
    case ReduceOp::Min:
      at::minimum_out(result, result, part);
      return;
  }
}

// `result` holds the first part.
void combine_others(torch::Tensor& result, const std::vector<torch::Tensor>& parts, ReduceOp op) {
  for (size_t i = 1; i < parts.size(); ++i) combine(result, parts[i], op);
  if (op == ReduceOp::Mean) result.div_(static_cast<int64_t>(parts.size()));
}

// LibTorch stores other types and does not calculate with all of them.
bool is_calculated_with(torch::ScalarType dtype) {
  switch (dtype) {
    case torch::kFloat64:
    case torch::kFloat32:
    case torch::kHalf:
    case torch::kBFloat16:
    case torch::kInt64:
    case torch::kInt32:
    case torch::kInt16:
    case torch::kInt8:
    case torch::kUInt8:
    case torch::kBool:
    case torch::kComplexFloat:
    case torch::kComplexDouble:
      return true;
    default:
      return false;
  }
}

}  // namespace

const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return "Sum";
    case ReduceOp::Mean:
      return "Mean";
    case ReduceOp::Max:
      return "Max";
    case ReduceOp::Min:
      return "Min";
  }
  return "?";
}

std::vector<torch::Tensor> parts_around(const torch::Tensor& own, int rank, int size) {
  std::vector<torch::Tensor> parts;
  for (int other = 0; other < size; ++other) parts.push_back(other == rank ? own : torch::empty_like(own));
  return parts;
}

void check_can_reduce(torch::ScalarType dtype, ReduceOp op, const char* call) {
  FSDP_CHECK(is_calculated_with(dtype),
             "{}: found a {} tensor, of which LibTorch forms no sums. Convert it first: tensor.to(torch::kFloat32).",
             call, c10::toString(dtype));
  FSDP_CHECK(op != ReduceOp::Mean || !at::isIntegralType(dtype, /*includeBool=*/true),
             "{}: found the Mean of a {} tensor, whose elements are whole. Convert it first: "
             "tensor.to(torch::kFloat32).",
             call, c10::toString(dtype));
  FSDP_CHECK(adds(op) || !at::isComplexType(dtype),
             "{}: found {} of a {} tensor, and complex numbers have no order. Reduce torch::view_as_real(tensor).",
             call, name_of(op), c10::toString(dtype));
}

torch::Tensor reduce_in_order(const std::vector<torch::Tensor>& parts, ReduceOp op) {
  const torch::ScalarType dtype = parts[0].scalar_type();
  torch::Tensor result = is_widened(dtype, op) ? parts[0].to(torch::kFloat32) : parts[0].clone();
  combine_others(result, parts, op);
  return result.to(dtype);
}

void reduce_in_place(const torch::Tensor& own, const std::vector<torch::Tensor>& parts, ReduceOp op) {
  torch::Tensor result = parts[0];
  if (is_widened(own.scalar_type(), op)) {
    result = reduce_in_order(parts, op);
  } else {
    combine_others(result, parts, op);
  }
  if (!result.is_same(own)) own.copy_(result);
}

}  // namespace fsdp::collectives
