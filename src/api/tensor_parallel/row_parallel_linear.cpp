#include "api/tensor_parallel/matrices.h"
#include "api/tensor_parallel/own_part.h"
#include "api/tensor_parallel/row_product.h"
#include "base/error.h"
#include "fsdp/tensor_parallel.h"

namespace fsdp {

using torch::Tensor;

namespace {

constexpr const char* kRowLayer = "RowParallelLinear";

AxisParts parts_of_columns(int64_t in_features, const World& axis, const TensorParallelOptions& parallel) {
  check_not_column(kRowLayer, parallel);
  const AxisParts parts = parts_of(kRowLayer, axis, parallel.parts);
  check_divides(kRowLayer, "in_features", in_features, parts, axis);
  return parts;
}

}  // namespace

RowParallelLinearImpl::RowParallelLinearImpl(const torch::nn::LinearOptions& options_, World axis,
                                             TensorParallelOptions parallel)
    : options(options_), axis_(std::move(axis)), parallel_(std::move(parallel)) {
  RowParallelLinearImpl::reset();
}

void RowParallelLinearImpl::reset() {
  const AxisParts parts = parts_of_columns(options.in_features(), axis_, parallel_);
  const torch::nn::LinearImpl whole(options);
  weight = register_parameter("weight", own_part(whole.weight, 1, {range_of_rank(options.in_features(), parts)}));
  bias = options.bias() ? register_parameter("bias", own_part(whole.bias, 0, {{0, options.out_features()}}))
                        : register_parameter("bias", {}, false);
}

Tensor RowParallelLinearImpl::forward(const Tensor& input) {
  const AxisParts parts = parts_of_columns(options.in_features(), axis_, parallel_);
  const Tensor values = cast_to_unit(input, weight);
  FSDP_CHECK(axis_.size() == 1 || !values.defined() || values.dim() == 0 || values.size(-1) != options.in_features(),
             "{}: found all {} input features, expected the {} of this rank. Use the output of a ColumnParallelLinear "
             "without gather_output, or narrow the input.",
             kRowLayer, options.in_features(), options.in_features() / axis_.size());
  check_input(kRowLayer, values, options.in_features() / axis_.size(), weight, parallel_);
  if (parallel_.sequence_parallel) check_sequence(kRowLayer, values, axis_.size());
  return row_product(values, weight, bias,
                     {.parts = parts, .axis = axis_, .sequence_parallel = parallel_.sequence_parallel});
}

std::vector<ParameterDivision> RowParallelLinearImpl::divisions() const {
  const AxisParts parts = parts_of_columns(options.in_features(), axis_, parallel_);
  return {division_of("weight", {options.out_features(), options.in_features()}, 1,
                      {range_of_rank(options.in_features(), parts)})};
}

void RowParallelLinearImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "fsdp::RowParallelLinear(in_features=" << options.in_features()
         << ", out_features=" << options.out_features() << ", bias=" << options.bias()
         << ", columns here=" << weight.size(1) << ")";
}

}  // namespace fsdp
