#include "api/tensor_parallel/own_part.h"

#include <utility>

#include "base/error.h"

namespace fsdp {

torch::Tensor own_part(const torch::Tensor& whole, int64_t dim, const std::vector<layout::Range>& ranges) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> parts;
  for (const layout::Range& range : ranges) parts.push_back(whole.narrow(dim, range.begin, range.numel()));
  return parts.size() == 1 ? parts[0].clone(torch::MemoryFormat::Contiguous) : torch::cat(parts, dim);
}

ParameterDivision division_of(const char* parameter, std::vector<int64_t> shape, int64_t dim,
                              const std::vector<layout::Range>& ranges) {
  ParameterDivision division{.parameter = parameter, .shape = std::move(shape), .dim = dim, .ranges = {}};
  for (const layout::Range& range : ranges) division.ranges.emplace_back(range.begin, range.end);
  return division;
}

void check_input(const char* caller, const torch::Tensor& input, int64_t columns, const torch::Tensor& weight,
                 const TensorParallelOptions& parallel) {
  FSDP_CHECK(input.defined() && input.dim() >= 1 && input.size(-1) == columns,
             "{}: found an input of shape [{}], expected [..., {}].", caller,
             fmt::join(input.defined() ? input.sizes() : at::IntArrayRef(), ", "), columns);
  FSDP_CHECK(!parallel.sequence_parallel || input.dim() >= 3,
             "{}: found an input of shape [{}], expected [batch, sequence, {}] with sequence_parallel.", caller,
             fmt::join(input.sizes(), ", "), columns);
  FSDP_CHECK(input.scalar_type() == weight.scalar_type() && input.device() == weight.device(),
             "{}: found a {} input on {} and a {} weight on {}, expected one dtype and device. Convert one of them.",
             caller, toString(input.scalar_type()), input.device().str(), toString(weight.scalar_type()),
             weight.device().str());
}

void check_not_column(const char* caller, const TensorParallelOptions& parallel) {
  FSDP_CHECK(!parallel.gather_output, "{}: found gather_output, which is for ColumnParallelLinear. Leave it out.",
             caller);
  FSDP_CHECK(parallel.blocks.empty(), "{}: found blocks, which are for ColumnParallelLinear. Leave them out.", caller);
}

}  // namespace fsdp
