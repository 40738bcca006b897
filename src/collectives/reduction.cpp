#include "collectives/reduction.h"

#include "base/error.h"

namespace fsdp::collectives {

namespace {

bool adds(ReduceOp op) { return op == ReduceOp::Sum || op == ReduceOp::Mean; }

bool is_widened(torch::ScalarType dtype, ReduceOp op) { return adds(op) && at::isReducedFloatingType(dtype); }

// `to` may be `left` or `right`.
void combine(torch::Tensor& to, const torch::Tensor& left, const torch::Tensor& right, ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Mean:
      at::add_out(to, left, right.to(left.scalar_type()));
      return;
    case ReduceOp::Max:
      at::maximum_out(to, left, right);
      return;
    case ReduceOp::Min:
      at::minimum_out(to, left, right);
      return;
  }
}

void divide_mean(torch::Tensor& sum, size_t parts, ReduceOp op) {
  if (op == ReduceOp::Mean) sum.div_(static_cast<int64_t>(parts));
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
  for (size_t i = 1; i < parts.size(); ++i) combine(result, result, parts[i], op);
  divide_mean(result, parts.size(), op);
  return result.to(dtype);
}

// The last step writes to `own`, which has been read by then: nothing is copied.
void reduce_in_place(torch::Tensor own, const std::vector<torch::Tensor>& parts, ReduceOp op) {
  if (parts.size() == 1 || is_widened(own.scalar_type(), op)) {
    own.copy_(reduce_in_order(parts, op));
    return;
  }
  torch::Tensor so_far = parts[0];
  for (size_t i = 1; i + 1 < parts.size(); ++i) combine(so_far, so_far, parts[i], op);
  combine(own, so_far, parts.back(), op);
  divide_mean(own, parts.size(), op);
}

}  // namespace fsdp::collectives
